"""A corpus as a visitor sees it: the stored head at once, a picked token, then a search, and the found head."""

import pytest

from model.corpus.search import pair_weights, search
from model.corpus.texts import bundled, corpus_of
from tests.support.visitor import SOON, expect, open_view, still

pytestmark = pytest.mark.browser

PART = "[data-part=corpus_{}]"
TINTED = """(at) => [...document.querySelectorAll("[data-part=corpus_passages] .pg-passage")[0]
  .querySelectorAll(".pg-reading-token")].filter((token) => token.style.backgroundColor).length"""


def test_a_head_is_shown_at_once_and_a_search_finds_others(open_page, lm):
    page = open_page()
    open_view(page, "Heads", "corpus")
    still(page, f"{PART.format('kinds')} .js-plotly-plot")
    for part in ("kinds", "distances", "tokens", "passages", "jobs", "clusters", "similar"):
        expect(page.locator(PART.format(part))).to_be_visible()
    first = page.locator(f"{PART.format('passages')} .pg-passage").first
    first.locator(".pg-reading-token").nth(9).click()
    expect(first.locator("[aria-pressed=true]")).to_have_attribute("data-index", "9")
    assert page.evaluate(TINTED) == 10  # its attention on itself and the tokens before it
    page.get_by_role("button", name="Attention to the picked token").click()
    assert page.evaluate(TINTED) == first.locator(".pg-reading-token").count() - 9
    form = page.locator(PART.format("form"))
    form.locator("[data-name=over] select").select_option(label="a search for heads")
    form.locator("[data-name=length] input").fill("128")
    form.locator("[data-name=length] input").press("Enter")
    table = page.locator(PART.format("pairs"))
    expect(table.locator("tbody tr").first).to_be_visible(timeout=60_000)
    pairs = pair_weights(lm, corpus_of(lm, bundled("princess"), 128, 64))
    layer, head = search(pairs, "name", "name", "yes").order[0]
    expect(table.locator("tbody tr").first).to_contain_text(f"{layer}.{head}")
    table.locator("tbody tr button").first.click()
    expect(page.locator("body")).to_contain_text(f"head {layer}.{head}", timeout=SOON)
