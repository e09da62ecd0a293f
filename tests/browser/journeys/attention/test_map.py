"""The attention tab as a workbench: ordering and filtering heads, several at once, measures, taking things away."""

import re

import numpy as np
import pytest

from model.api import load_model
from model.attention.measures import measure
from tests.browser.conftest import READY
from tests.support.visitor import export

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

ROUNDING = 2e-5  # the app may have chosen another float32 product
PROMPT = "The cat sat on the mat because it was tired"


@pytest.fixture(scope="module")
def lm():
    return load_model("tinygpt")


@pytest.fixture
def page(same_page):
    """A page with the first prompt, one head, no edits, and every setting as it is at first."""
    page = same_page(ready=READY)
    if page.locator("#prompt textarea").input_value() != PROMPT:
        page.locator("#prompt textarea").fill(PROMPT)
    expect(page.locator("#pg-header")).to_contain_text("10 tokens")
    for name, value in (("measure", "weights"), ("of", "each"), ("curve", "sqrt")):
        setting = page.locator(f"#pg-attention_view [data-name={name}] select")
        if setting.input_value() != value:
            setting.select_option(value)
    for name in ("Order", "Layers"):
        page.get_by_label(name).select_option("")
    page.evaluate("playground.select({heads: [[0, 0]], tokens: [], edits: []})")
    title(page, "Head 0.0")
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(r" 0\.0$"))
    expect(page.locator("#pg-map_plot .pg-source")).to_contain_text("colors: square root")
    expect(page.locator("#pg-map_plot .pg-source")).not_to_contain_text("edited run")
    wait_for_maps(page, 1)
    return page


def head(page, layer, number):
    return page.get_by_role("button", name=f"Head {layer}.{number}", exact=True)


def title(page, text):
    expect(page.locator("#pg-map_plot h2")).to_have_text(text)


def choose(page, name, value):
    page.locator(f"#pg-attention_view [data-name={name}] select").select_option(value)


def drawn(page):
    """The numbers of each heat map on the page, NaN as None."""
    return page.evaluate(
        """() => document.querySelector('#pg-map_plot .pg-chart')._fullData.map(
                 (t) => Array.from(t.z, (row) => Array.from(row, (v) => Number.isFinite(v) ? v : null)))"""
    )


def wait_for_maps(page, n):
    page.wait_for_function(f"() => document.querySelector('#pg-map_plot .pg-chart')._fullData?.length === {n}")


def assert_same(shown, z):
    shown = np.array([[np.nan if v is None else v for v in row] for row in shown])
    assert np.array_equal(np.isnan(shown), np.isnan(z))
    assert np.nanmax(np.abs(shown - z)) <= ROUNDING * max(1, np.nanmax(np.abs(z)))


def test_heads_are_ordered_and_filtered_by_a_metric(page, lm):
    metrics = lm.trace(PROMPT).head_metrics()["first_token"].sort_values(ascending=False)
    page.get_by_label("Order").select_option(label="first token (sink), largest first")
    shown = page.locator(".pg-head:not([hidden])")
    expect(shown).to_have_count(64)
    places = page.evaluate(
        """() => [...document.querySelectorAll('.pg-head')].map((b) => [b.ariaLabel, b.offsetTop, b.offsetLeft])
                 .sort((a, b) => a[1] - b[1] || a[2] - b[2]).map((b) => b[0])"""
    )
    assert places[:5] == [f"Head {layer}.{number}" for layer, number in metrics.index[:5]]
    page.get_by_label("At least").fill("0.5")
    enough = int((metrics >= 0.5 * metrics.max()).sum())
    expect(shown).to_have_count(enough)
    expect(page.locator("#pg-overview_heads .pg-bar")).to_contain_text(f"{enough} of 64 heads")
    page.get_by_label("Layers").select_option(label="layer 0")
    expect(shown).to_have_count(int((metrics[0] >= 0.5 * metrics.max()).sum()))


def test_arrows_walk_in_the_order_that_is_shown(page, lm):
    metrics = lm.trace(PROMPT).head_metrics()["previous_token"].sort_values(ascending=False)
    page.get_by_label("Order").select_option(label="previous token, largest first")
    first, second = metrics.index[:2]
    head(page, *first).focus()
    page.keyboard.press("ArrowRight")
    expect(head(page, *second)).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".pg-head[aria-pressed=true]")).to_have_count(1 if first == second else 2)


def test_several_heads_stand_side_by_side_on_one_scale(page, lm):
    head(page, 7, 3).click()
    title(page, "Head 7.3")
    head(page, 5, 7).click(modifiers=["Shift"])
    title(page, "Heads 7.3, 5.7")
    wait_for_maps(page, 2)
    trace = lm.trace(PROMPT)
    for shown, place in zip(drawn(page), ((7, 3), (5, 7)), strict=True):
        assert_same(shown, measure(trace, "weights", *place))
    expect(page.locator("#pg-selection .pg-selected")).to_have_count(2)
    head(page, 7, 3).click(modifiers=["Control"])  # and away again
    title(page, "Head 5.7")
    wait_for_maps(page, 1)


@pytest.mark.parametrize("of,text", [("mean", "Mean of heads 7.3, 5.7"), ("max", "Maximum of heads 7.3, 5.7")])
def test_picked_heads_together(page, lm, of, text):
    head(page, 7, 3).click()
    head(page, 5, 7).click(modifiers=["Shift"])
    choose(page, "of", of)
    title(page, text)
    trace = lm.trace(PROMPT)
    a, b = measure(trace, "weights", 7, 3), measure(trace, "weights", 5, 7)
    assert_same(drawn(page)[0], (a + b) / 2 if of == "mean" else np.maximum(a, b))


@pytest.mark.parametrize("name", ["scores", "without_first", "value_weighted", "rollout", "flow"])
def test_every_measure_shows_its_own_numbers(page, lm, name):
    head(page, 3, 2).click()
    title(page, "Head 3.2")
    choose(page, "measure", name)
    label = page.locator(f"#pg-attention_view [data-name=measure] option[value={name}]").text_content()
    page.wait_for_function(
        "label => document.querySelector('#pg-map_plot .pg-chart')._fullLayout.coloraxis.colorbar.title.text === label",
        arg=label,
    )
    assert_same(drawn(page)[0], measure(lm.trace(PROMPT), name, 3, 2))
    expect(page.locator("#pg-attention_view .pg-control-help")).to_contain_text(re.compile(r"\(.+ (et al\.|&) .*\d{4}"))


def test_the_ramp_can_be_changed(page):
    scale = "document.querySelector('#pg-map_plot .pg-chart')._fullLayout.coloraxis.colorscale"
    before = page.evaluate(scale)
    choose(page, "curve", "log")
    expect(page.locator("#pg-map_plot .pg-source")).to_contain_text("colors: logarithmic")
    page.wait_for_function(f"() => JSON.stringify({scale}) !== {str(before)!r}")
    assert page.evaluate(scale)[1][0] == pytest.approx(1e-4)


def test_a_measure_that_cannot_be_had_says_why_and_comes_back(page):
    page.locator("#prompt textarea").fill(PROMPT + " and so on" * 40)
    expect(page.locator("#pg-header")).to_contain_text("130 tokens")
    choose(page, "measure", "flow")
    problem = page.locator("#pg-map_plot .pg-problem")
    expect(problem).to_be_visible()
    expect(problem).to_contain_text("tokens")
    expect(page.locator("#pg-map_plot .pg-chart")).to_be_hidden()
    choose(page, "measure", "weights")
    expect(problem).to_be_hidden()
    expect(page.locator("#pg-map_plot .pg-chart")).to_be_visible()


def test_numbers_leave_as_npz_exactly_as_they_are(page, lm):
    head(page, 7, 3).click()
    head(page, 5, 7).click(modifiers=["Shift"])
    wait_for_maps(page, 2)
    saved = np.load(export(page.locator("#pg-map_plot"), "NPZ"))
    trace = lm.trace(PROMPT)
    for n, place in enumerate(((7, 3), (5, 7))):
        assert saved[f"values_{n}"].dtype == np.float32
        assert_same(saved[f"values_{n}"], measure(trace, "weights", *place))
        assert saved[f"name_{n}"][0] == "Head {}.{}".format(*place)
    assert saved["rows_0"].tolist()[7] == "7 ·it" and len(saved["columns_1"]) == 10


@pytest.mark.parametrize("kind", ["PNG", "SVG"])
def test_pictures_leave_the_page(page, kind):
    raw = export(page.locator("#pg-map_plot"), kind).read_bytes()
    assert raw.startswith(b"\x89PNG" if kind == "PNG" else b"<svg") and len(raw) > 5000


def test_the_python_lines_make_the_same_numbers(page):
    head(page, 7, 3).click()
    title(page, "Head 7.3")
    choose(page, "measure", "value_weighted")
    page.evaluate("playground.select({edits: [{kind: 'scale', layer: 2, head: 1, factor: 0.5}]})")
    expect(page.locator("#pg-map_plot .pg-source")).to_contain_text("edited run")
    page.locator("#pg-map_plot .pg-foot").get_by_role("button", name="Python").click()
    lines = page.locator("#pg-map_plot .pg-code pre").text_content()
    found = {}
    exec(lines, found)
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData.length === 1")
    assert_same(drawn(page)[0], found["maps"][0])
    assert "Edit('scale', layer=2, head=1, factor=0.5)" in lines


def test_an_edit_is_seen_in_every_number_and_can_be_taken_back(page, lm):
    head(page, 7, 3).click()
    title(page, "Head 7.3")
    plain = drawn(page)[0]
    page.evaluate("playground.select({edits: [{kind: 'zero', layer: 5, head: 0}]})")
    strip = page.locator("#pg-edited")
    expect(strip).to_contain_text("head 5.0 off")
    expect(page.locator("#pg-map_plot .pg-source")).to_contain_text("edited run")
    from model.gpt.edits import Edit

    assert_same(drawn(page)[0], measure(lm.trace(PROMPT).edit(Edit("zero", 5, 0)), "weights", 7, 3))
    strip.get_by_role("button", name="Remove: head 5.0 off").click()
    expect(page.locator("#pg-map_plot .pg-source")).not_to_contain_text("edited run")
    assert drawn(page)[0] == plain


def test_edits_that_no_longer_fit_are_dropped(page):
    page.evaluate("playground.select({edits: [{kind: 'block_edge', query: 9, key: 2}]})")
    expect(page.locator("#pg-edited")).to_contain_text("edge 9 → 2 blocked")
    page.locator("#prompt textarea").fill("The cat")
    expect(page.locator("#pg-header")).to_contain_text("2 tokens")
    expect(page.locator("#pg-edited")).not_to_contain_text("blocked")
    expect(page.locator("#pg-map_plot .pg-source")).not_to_contain_text("edited run")


def test_the_tab_key_enters_the_grid_at_the_selected_head(page):
    head(page, 6, 2).click()
    title(page, "Head 6.2")
    page.locator("#prompt textarea").focus()
    page.evaluate("playground.select({ heads: [[3, 5]] })")
    expect(page.locator("#pg-overview_heads .pg-head[tabindex='0']")).to_have_attribute("aria-label", "Head 3.5")
