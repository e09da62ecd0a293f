"""The shuffled prompt as a visitor sees it: equal bars in the first block, others in a deeper one, another order."""

import numpy as np
import pytest

from model.design.shuffled import new_order, shuffled
from tests.support.visitor import SOON, expect, open_tab, still
from viz.labels import visible
from viz.numbers import number

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
BARS = """() => document.querySelector("#pg-shuffled_weights .js-plotly-plot").data.map((each) => [...each.y])"""
CHART = "#pg-shuffled_weights .js-plotly-plot"


def bars(page) -> tuple[np.ndarray, np.ndarray]:
    still(page, CHART)
    written, moved = page.evaluate(BARS)
    return np.array(written), np.array(moved)


def test_a_layer_0_head_sees_no_order_without_positions_and_one_of_layer_5_does(open_page, lm):
    page = open_page()
    open_tab(page, "Effects")
    page.get_by_role("tab", name="Shuffled prompt").click()
    title = page.locator("#pg-shuffled_weights h2")
    expect(title).to_be_visible(timeout=SOON)
    ids, pieces = lm.trace(PROMPT).tokens.ids.tolist(), lm.trace(PROMPT).tokens.pieces
    off, own = (shuffled(lm.model, ids, new_order(len(ids), 0), way) for way in ("no_positions", "model"))
    for layer, head in ((0, 3), (5, 1)):
        page.evaluate("head => playground.select({heads: [head]})", [layer, head])
        expect(title).to_contain_text(f"Head {layer}.{head}", timeout=SOON)
        written, moved = bars(page)
        assert np.abs(written - off.weights[0, layer, head]).max() < 1e-5
        assert (np.abs(written - moved).max() < 1e-5) == (layer == 0)
    rows = page.locator("#pg-shuffled_table tbody tr")
    expect(rows).to_have_count(3)
    for row, found in enumerate((own, off)):
        expect(rows.nth(row).locator("td").last).to_have_text(number(float(found.distance[-1]), 2))
    page.locator("#pg-shuffled_form select").select_option("model")
    expect(title).to_contain_text("original model", timeout=SOON)
    assert np.abs(bars(page)[1] - own.weights[1, 5, 1]).max() < 1e-5
    seed = page.locator("#pg-shuffled_form input[type=number]")
    seed.fill("1")
    seed.press("Enter")
    text = "".join(visible(pieces[at]) for at in new_order(len(ids), 1))
    expect(page.locator("#pg-shuffled_orders")).to_contain_text(text, timeout=SOON)
