"""When it appears, as a visitor uses it: the lens's numbers, by mouse and by keyboard, wide and narrow."""

import numpy as np
import pytest

from model.tracing.logit_lens import read_layers, read_position
from tests.support.visitor import SOON, exported_rows, open_tab, still

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

ROUNDING = 2e-5  # the app and the test may have chosen different float32 products
CAT = "The cat sat on the mat because it was tired"
HOSTILE = "a_b <img src=x onerror=alert(1)> ${alert(2)} {token} {{x}} \u202e </script> &lt; 👩‍🚀 \n\n end"


def part(page, name):
    return page.locator(f"[data-part=lens_{name}]")


def open_lens(open_page, query="", tab="Predictions", **context):
    page = open_page(query, **context)
    open_tab(page, tab)
    page.locator("#pg-predictions_view [data-key=lens]").click()
    part(page, "table").locator("tbody button").first.wait_for(timeout=SOON)
    part(page, "curve").locator(".js-plotly-plot").wait_for(timeout=SOON)
    return page


def lines(page):
    """The curves as they are drawn: {name: y}."""
    return page.evaluate(
        "() => Object.fromEntries(document.querySelector('[data-part=lens_curve] .pg-chart')._fullData"
        ".map((line) => [line.name, Array.from(line.y)]))"
    )


def cell(page, layer, position):
    """The table's button; layer 0, the embedding, is on top."""
    return part(page, "table").locator("tbody tr").nth(layer).locator("button").nth(position)


def test_the_table_has_the_lenss_numbers_and_its_cells_lead_to_the_curves(open_page, lm):
    page = open_lens(open_page)
    trace = lm.trace(CAT)
    reading, table = read_layers(trace, range(10)), part(page, "table")
    expect(table.locator("tbody tr")).to_have_count(9)
    expect(table.locator("tbody th").last).to_have_text("8output")
    expect(table.locator("thead th").nth(4)).to_have_text("·on→ ·the")
    expect(table.locator(".pg-about")).to_contain_text("All 10 positions are shown.")
    same = table.locator(".pg-lens-same")
    assert same.count() == int((reading.ids[..., 0] == reading.ids[-1, :, 0]).sum())
    names, *rows = exported_rows(table)
    assert len(rows) == 90 and names[-2:] == ["KL(final ‖ lens) (nats)", "rank of the final answer"]
    numbers = np.array([[float(row[at]) for at in (0, 1, 5, -3, -2, -1)] for row in rows]).reshape(9, 10, 6)
    assert numbers[..., 2] == pytest.approx(reading.probabilities[..., 0], abs=ROUNDING)
    assert numbers[..., 3] == pytest.approx(reading.entropy / np.log(2), abs=10 * ROUNDING)
    assert numbers[..., 4] == pytest.approx(reading.kl, abs=1e-3)  # up to 20 nats
    assert (numbers[..., 5] == reading.ranks[..., 0]).mean() > 0.95  # of two that nearly tie either may be first
    # A click picks the position everywhere; what stays pointed at is told below.
    cell(page, 5, 3).click()
    expect(part(page, "curve").locator("h2")).to_contain_text("“·on” (position 3)", timeout=SOON)
    expect(page.locator(".pg-chip[aria-pressed=true]")).to_have_text("·on")
    readout = table.locator(".pg-lens-readout")
    expect(readout).to_contain_text("Layers passed: 5 · position 3 “·on”")
    expect(readout).to_contain_text(f"{100 * reading.probabilities[5, 3, 0]:.1f}%")
    logits = trace.logits_at(3)
    final = np.argsort(-logits, kind="stable")[:5].tolist()
    expected = read_position(trace, 3, candidates=final).shares[:, 0].T
    expect(part(page, "curve")).to_contain_text("(position 3): probability", timeout=SOON)
    assert np.array(list(lines(page).values())) == pytest.approx(expected, abs=ROUNDING)
    expect(part(page, "check")).to_contain_text("at position 3 differ by at most 0.")
    # The keyboard walks the cells and picks with Enter.
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    expect(cell(page, 4, 2)).to_be_focused()
    expect(readout).to_contain_text("Layers passed: 4 · position 2 “·sat”")
    page.keyboard.press("Enter")
    expect(part(page, "curve").locator("h2")).to_contain_text("(position 2)", timeout=SOON)
    expect(cell(page, 4, 2)).to_be_focused()
    assert table.locator("tbody button[tabindex='0']").count() == 1


def test_settings_typed_tokens_the_map_and_the_tuned_lens(open_page, lm):
    page = open_lens(open_page)
    form, run = part(page, "form"), part(page, "table").get_attribute("data-run")
    form.locator("[data-name=colour] select").select_option("rank")
    expect(part(page, "table")).not_to_have_attribute("data-run", run, timeout=SOON)
    expect(part(page, "table").locator(".pg-lens-bar")).to_contain_text("rank of the final answer: last")
    expect(part(page, "map").locator("h2")).to_have_text("Rank of the final answer, at all positions", timeout=SOON)
    form.locator("[data-name=curve] select").select_option("rank")
    form.locator("[data-name=more] input").fill("·purple cat")
    expect(page.locator("#pg-lens_curve .pg-problem")).to_contain_text("Type one token", timeout=SOON)
    form.locator("[data-name=more] input").fill("·cat")
    page.wait_for_function(
        """() => document.querySelector('[data-part=lens_curve] .pg-chart')
            ._fullData?.some((line) => line.name === '“·cat”')""",
        timeout=SOON,
    )
    (token,) = lm.encode(" cat").ids.tolist()
    ranks = read_position(lm.trace(CAT), 9, candidates=[token]).ranks[:, 0, 0]
    drawn = np.array(lines(page)["“·cat”"])
    assert len(drawn) == 17 and (np.abs(drawn - ranks) <= 1 + ranks / 100).all()
    still(page, "[data-part=lens_map] .pg-chart")
    place = page.evaluate(
        """() => { const plot = document.querySelector('[data-part=lens_map] .pg-chart');
                   plot.scrollIntoView({block: 'center'});
                   const l = plot._fullLayout, r = plot.getBoundingClientRect();
                   return [r.left + l.xaxis._offset + l.xaxis.c2p(4), r.top + l.yaxis._offset + l.yaxis.c2p(2)]; }"""
    )
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    expect(part(page, "map").locator(".hoverlayer")).to_contain_text("4 ·the")
    page.mouse.click(*place)
    expect(part(page, "curve").locator("h2")).to_contain_text("(position 4)", timeout=SOON)
    expect(part(page, "table").locator("thead .pg-lens-looked")).to_contain_text("·the")
    form.locator("[data-name=lens] select").select_option("tuned")
    told = page.locator("#pg-lens_table .pg-problem:visible, [data-part=lens_table] .pg-about:has-text('Tuned lens')")
    expect(told).to_be_visible(timeout=SOON)


def test_narrow_chinese_hostile_and_one_token(open_page):
    page = open_lens(open_page, "?lang=zh", "预测", viewport={"width": 390, "height": 844})
    table = part(page, "table")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = table.locator(".pg-lens-box")
    assert box.evaluate("(node) => node.scrollWidth > node.clientWidth && node.scrollLeft > 0")  # the last is in view
    left = "(node) => Math.round(node.getBoundingClientRect().left)"
    assert table.locator("tbody th").first.evaluate(left) - box.evaluate(left) <= 1  # the blocks stay in view
    run = table.get_attribute("data-run")
    page.locator("#prompt textarea").fill(HOSTILE)
    expect(table).not_to_have_attribute("data-run", run, timeout=SOON)
    expect(table.locator("thead")).to_contain_text("<0xAE>")  # of U+202E, which would turn the line around
    assert page.locator("[data-part] img, [data-part] script").count() == 0
    run = table.get_attribute("data-run")
    page.locator("#prompt textarea").fill("The")
    expect(table).not_to_have_attribute("data-run", run, timeout=SOON)
    expect(table.locator("tbody button")).to_have_count(9)
    expect(table.locator(".pg-about")).to_contain_text("显示全部 1 个位置")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
