"""The vocabulary as a visitor sees it: neighbors of a typed token, found tokens on the map, and the stored t-SNE."""

import pytest

from model.token_tables.neighbors import nearest_tokens
from tests.support.visitor import SOON, expect, open_view, still
from viz.labels import quoted

pytestmark = pytest.mark.browser

CHART = "[data-part=vocabulary_places] .js-plotly-plot"
FOUND = """() => document.querySelector("[data-part=vocabulary_places] .js-plotly-plot")._fullData.at(-1).hovertext"""


def test_neighbors_and_searched_tokens_are_on_the_map(open_page, lm):
    page = open_page()
    open_view(page, "Anatomy", "vocabulary")
    form = page.locator("[data-part=vocabulary_form]")
    form.locator("[data-name=token] input").fill(" dog")
    form.locator("[data-name=token] input").press("Enter")
    near = page.locator("[data-part=vocabulary_near]")
    expect(near.locator("h2")).to_contain_text("“·dog”", timeout=SOON)
    token = int(lm.encode(" dog").ids[0])
    ids = nearest_tokens(lm.model, token, "embedding", vocab=lm.tokenizer.vocab_size).ids
    names = [quoted(lm.tokenizer.piece(int(n))) for n in ids]
    assert near.locator(".pg-effect-token").all_inner_texts()[: len(names)] == names
    form.locator("[data-name=search] input").fill("queen")
    form.locator("[data-name=search] input").press("Enter")
    places = page.locator("[data-part=vocabulary_places]")
    expect(places).to_contain_text("contain “queen”", timeout=SOON)
    still(page, CHART)
    assert page.evaluate(FOUND) and all("queen" in text.lower() for text in page.evaluate(FOUND))
    form.locator("[data-name=method] select").select_option(label="neighbors (t-SNE)")
    expect(places).to_contain_text("only nearness has a meaning", timeout=SOON)
    still(page, CHART)
    expect(places.locator(".js-plotly-plot")).to_be_visible()
