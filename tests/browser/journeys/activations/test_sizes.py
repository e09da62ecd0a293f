"""The views of sizes and outliers as a visitor uses them: a click looks at a row and picks a token for the page."""

import numpy as np
import pytest

from model.activations.residual_statistics import outliers, statistic, survey
from model.api import load_model
from tests.support.visitor import SOON, expect, exported_rows, open_tab, still

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
# The app and the test may have chosen different float32 products.
ROUNDING = 1e-3  # relative


@pytest.fixture(scope="module")
def stream():
    return survey(load_model("tinygpt", offline=True).trace(PROMPT))


def open_sizes(open_page, query="", name="Norms", **context):
    page = open_page(query, **context)
    open_tab(page, name)
    for part in ("map", "profile", "row"):
        page.locator(f"#pg-sizes_{part} [data-run]").wait_for(timeout=SOON)
    return page


def click_cell(page, part, row, column):
    """Click a cell of a map, by its indices."""
    still(page, f"#pg-{part} .pg-chart")
    place = page.evaluate(
        """([part, row, column]) => {
            const plot = document.querySelector(`#pg-${part} .pg-chart`);
            plot.scrollIntoView();
            const l = plot._fullLayout, r = plot.getBoundingClientRect();
            return [r.left + l.xaxis._offset + l.xaxis.l2p(column), r.top + l.yaxis._offset + l.yaxis.l2p(row)]; }""",
        [part, row, column],
    )
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    expect(page.locator(f"#pg-{part} .hoverlayer .hovertext")).to_be_visible()
    told = page.locator(f"#pg-{part} .hoverlayer").text_content()
    page.mouse.click(*place)
    return told


def test_a_click_in_the_map_picks_its_token_and_its_row(open_page, stream):
    page = open_sizes(open_page)
    rows, values = statistic(stream, "rms")
    told = click_cell(page, "sizes_map", 5, 3)
    assert "layer 2 · before the MLP" in told and "3 ·on" in told
    shown = float(told.split("RMS: ")[1])
    assert shown == pytest.approx(values[5, 3], rel=ROUNDING)  # exact, though the colors are not
    expect(page.locator("#pg-sizes_row h2")).to_have_text("By token: RMS, layer 2 · before the MLP", timeout=SOON)
    expect(page.locator("#pg-sizes_row .pg-about")).to_contain_text("“·on” (position 3)", timeout=SOON)
    expect(page.locator("#pg-selection")).to_contain_text("·on (3)")
    expect(page.locator("#pg-sizes_map .shapelayer path")).to_have_count(2)  # its column and its row
    assert (rows[5], rows[6]) == (("norm2", 2), ("norm1", 3))
    page.locator("#pg-sizes_map").get_by_role("button", name="Row below").click()
    expect(page.locator("#pg-sizes_row h2")).to_have_text("By token: RMS, layer 3 · before attention", timeout=SOON)
    expect(page.locator("#pg-sizes_map .pg-gridrow option:checked")).to_have_text("layer 3 · before attention")
    page.locator("#pg-sizes_form select").select_option("update")
    expect(page.locator("#pg-sizes_map h2")).to_contain_text("Size of each sublayer's update", timeout=SOON)
    expect(page.locator("#pg-sizes_row h2")).to_have_text("By token: update size, layer 3 · attention")
    expect(page.locator("#pg-sizes_profile .xy2, #pg-sizes_profile .x2y2").first).to_be_attached(timeout=SOON)
    lines = exported_rows(page.locator("#pg-sizes_map"))
    found = np.array([float(line[-1]) for line in lines[1:]]).reshape(stream.update.shape[0] * 2, -1)
    assert lines[0] == ["row", "token", "update / stream"]
    np.testing.assert_allclose(found, stream.update.reshape(found.shape), rtol=ROUNDING)
    page.get_by_role("tab", name="One norm").click()
    expect(page.locator("#pg-one_norm_walk h2")).to_contain_text("(layer 3 · before attention)", timeout=SOON)


def test_outliers_the_tokens_that_carry_them_and_one_tokens_dimensions(open_page, stream):
    page = open_sizes(open_page)
    page.locator("#pg-activations_view button[data-key=outliers]").click()
    page.locator("#pg-outliers_list [data-part][data-run]").wait_for(timeout=SOON)
    page.locator("#pg-outliers_form [data-name=rule] select").select_option("int8")
    expect(page.locator("#pg-outliers_list .pg-about")).to_contain_text("Dettmers", timeout=SOON)
    table = outliers(stream, "int8", ("norm1", "final"))
    assert len(table) > 0
    first = page.locator("#pg-outliers_list .pg-table:has(table)").last.locator("tbody tr").first
    expect(first.locator("td").nth(1)).to_have_text(str(table["dimension"][0]))
    chip = first.get_by_role("button")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    token = int(table["token"][0])
    expect(page.locator("#pg-outliers_one h2")).to_contain_text(f"token {token} ", timeout=SOON)
    expect(page.locator("#pg-selection")).to_contain_text(f"({token})")
    page.locator("#pg-outliers_map [data-run]").wait_for(timeout=SOON)
    rows = len(stream.rows(("norm1", "final")))
    told = click_cell(page, "outliers_map", rows - 1, 0)
    assert "final norm" in told and "× the median, at token" in told
    expect(page.locator("#pg-outliers_one h2")).to_contain_text("final norm", timeout=SOON)
    expect(page.locator("#pg-outliers_map .shapelayer path")).to_have_count(1)  # its row only: columns are no tokens
