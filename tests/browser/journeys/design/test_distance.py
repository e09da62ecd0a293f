"""The views of distance and of the trained length as a visitor uses them."""

import re

import pytest

from model.attention.distance import buckets, by_distance
from tests.support.visitor import SOON, expect, exported_rows, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
TEXT = "Once upon a time there was a little cat who sat on a mat by the sea. " * 80  # 1,400 tokens


def test_scores_by_distance_and_past_the_trained_length(open_page, lm):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="Distance", exact=True).click()
    scores, layer = page.locator("#pg-distance_scores"), page.locator("#pg-distance_layer")
    scores.locator("[data-run]").wait_for(timeout=SOON)
    page.evaluate("playground.select({ heads: [[0, 2]] })")
    expect(scores).to_contain_text("In layer 0 this part is exact", timeout=SOON)
    expect(layer.locator("h2")).to_contain_text("All heads of layer 0")
    run = lm.trace(PROMPT)
    expected = by_distance(run.scores(0, 2), run.pattern(0, 2), buckets(len(run.tokens)))
    names, *rows = exported_rows(scores)
    assert names[1:] == ["distances", "distance, query − key (tokens)", "score before the softmax"]
    medians = [float(row[3]) for row in rows if row[0] == "head 0.2, median" and row[3]]
    assert medians == pytest.approx(expected.median[:-1].tolist(), rel=1e-5)
    # The first token among the others: its line goes.
    page.locator("#pg-distance_form select").nth(1).select_option("in")
    expect(page.locator("#pg-distance_weights")).to_contain_text("including the first token", timeout=SOON)
    # Past the trained length: a stored result of the bundled text, and an example before the button for one's own text.
    page.get_by_role("tab", name="Past the trained length", exact=True).click()
    table = page.locator("#pg-past_length_table")
    expect(page.locator("#pg-past_length_job")).to_contain_text("Stored result. To measure it here", timeout=SOON)
    expect(page.locator("#pg-past_length_figure")).to_contain_text("TinyGPT · float32 · stored result", timeout=SOON)
    expect(page.locator("#pg-past_length_facts")).to_contain_text("From position 512 on there is no vector")
    selects = page.locator("#pg-past_length_form select")
    selects.nth(3).select_option("own")
    page.locator("#pg-past_length_form textarea").fill(TEXT)
    expect(table.locator("[data-example]")).to_be_visible(timeout=SOON)
    page.locator("#pg-past_length_job").get_by_role("button", name="Measure", exact=True).click()
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(5, timeout=SOON)
    expect(rows.nth(0)).to_contain_text("unchanged, in pieces")
    expect(rows.nth(1)).to_contain_text("repeat the table")
    assert not re.search(r"\{\w+\}", table.text_content())
    figure = page.locator("#pg-past_length_figure")
    figure.locator("[data-run]").wait_for(timeout=SOON)
    selects.nth(2).select_option("difference")
    expect(figure.locator("h2")).to_contain_text("Difference from the unchanged model", timeout=SOON)
    found = {row[0]: float(row[3]) for row in exported_rows(figure)[1:]}
    assert found["unchanged, in pieces"] == 0 and found["repeat the table"] > 0.1
