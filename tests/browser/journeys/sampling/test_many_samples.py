"""Strategies are changed and many samples taken, as a visitor does it."""

import pytest

from model.api import load_model
from model.generation.strategies import STRATEGIES
from model.predictions.samples import Many, take_samples
from tests.support.visitor import SOON, expect, exported_rows, open_tab
from viz.views.sampling.many_samples.figures import spread

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def test_strategies_are_changed_and_samples_taken(open_page):
    page = open_page("?lang=en")
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Many samples", exact=True).click()
    cards, editor = page.locator(".pg-strat"), page.locator(".pg-strat-editor")
    expect(cards).to_have_count(4, timeout=SOON)
    # A card is opened, gets another preset and a name; another one goes.
    cards.nth(2).locator(".pg-strat-open").click()
    editor.get_by_label("Preset").select_option("min_p")
    expect(cards.nth(2)).to_contain_text("T 1.5 · min-p 0.1")
    editor.get_by_label("Name").fill("<b>warm</b>")
    expect(cards.nth(2)).to_contain_text("<b>warm</b>")
    cards.nth(1).get_by_role("button", name="Remove").click()
    expect(cards).to_have_count(3)
    expect(editor).to_be_visible()  # the open one stays open
    page.get_by_label("New tokens").fill("8")
    page.locator("#pg-many_samples_form select").select_option("8")
    job = page.locator("#pg-many_samples_job")
    expect(job).to_contain_text("17 texts of up to 8 tokens", timeout=SOON)
    job.get_by_role("button", name="Take samples").click()
    rows = page.locator("#pg-many_samples_table tbody tr")
    expect(rows).to_have_count(3, timeout=SOON)
    # The table and the list are what the same samples say.
    lm = load_model("tinygpt", offline=True)
    taken = take_samples(lm, PROMPT, [STRATEGIES[key] for key in ("greedy", "min_p", "top_p")], Many(8, 8, 0))
    expect(rows.nth(1).locator("th")).to_contain_text("<b>warm</b>")
    expected = spread([sample.measured.perplexity for sample in taken[1]])
    expect(rows.nth(1).locator("td[data-measure=perplexity]")).to_contain_text(f"{expected.mean:.2f}")
    # Another measure, chosen in the table's head, is drawn and sorts the texts.
    page.locator("#pg-many_samples_table thead").get_by_role("button", name="Surprisal").click()
    expect(page.locator("#pg-many_samples_plot h2")).to_have_text("Surprisal (bits per token)", timeout=SOON)
    page.locator("#pg-many_samples_plot .main-svg").first.wait_for(timeout=SOON)
    shown = page.locator(".pg-many-value").all_text_contents()
    values = [float(text.split()[-1]) for text in shown]
    assert len(values) == 17 and values == sorted(values, reverse=True)
    ids = [line[-1] for line in exported_rows(page.locator("#pg-many_samples_texts"))[1:]]
    assert ids == [" ".join(map(str, sample.ids)) for each in taken for sample in each]
    # One of them becomes the prompt.
    text = taken[0][0].text
    greedy = page.locator("#pg-many_samples_texts .pg-many-text").filter(has_text="Greedy")
    greedy.get_by_role("button", name="Look inside").click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT + text)
    n, before = len(lm.encode(PROMPT + text)), len(lm.encode(PROMPT))
    expect(page.locator("#pg-tokens .pg-chip-written")).to_have_count(n - before, timeout=SOON)
