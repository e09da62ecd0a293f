"""The compare tab as a visitor uses it: two prompts, two models, an edited run and its original, and patching."""

import re

import numpy as np
import pytest

from model.attention.effects import Target, metric, patch, patch_heads, recovered
from model.gpt.edits import Edit
from model.loading.sources import available
from model.sampling.pipeline import softmax
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.visitor import SOON, expect, exported_rows, open_tab, still, watch_token
from viz.numbers import difference as signed
from viz.views.compare.alignment import difference

pytestmark = pytest.mark.browser

COREFERENCE = "The cat sat on the mat because it was tired"
DOG = "The dog sat on the mat because it was tired"
LONGER = "The old dog sat on the mat because it was tired"
HOSTILE = "<img src=x onerror=alert(1)> ${alert(2)} {{value}} <b>bold</b> \u202e <script>alert(3)</script> &lt;"
# The app and the test may have chosen different float32 products: what 8 layers make of them differs by rounding.
ROUNDING = 2e-5
METRICS = list(HEAD_METRICS)


def open_compare(page, name="Compare"):
    open_tab(page, name)
    page.locator("#pg-run_b textarea").wait_for(state="attached", timeout=SOON)


@pytest.fixture
def page(same_page, lm):
    """A page with the compare tab open: the first prompt and head, beside the suggested prompt, with nothing picked."""
    page = same_page()
    if page.locator("#prompt textarea").input_value() != COREFERENCE:
        page.locator("#prompt textarea").fill(COREFERENCE)
    open_compare(page)
    show(page, "Two runs")
    layer, head = (int(n) for n in lm.trace(COREFERENCE).head_metrics()["previous_token"].idxmax())
    page.evaluate("head => playground.select({heads: [head], tokens: [], edits: []})", [layer, head])
    beside = page.locator("#pg-run_b [data-key=prompt]")
    if beside.get_attribute("aria-selected") == "false":
        beside.click()
    box, metric = page.locator("#pg-run_b textarea"), page.locator("#pg-runs_metric select")
    if box.input_value():
        box.fill("")
        box.blur()
    if metric.input_value() != METRICS[0]:
        metric.select_option(METRICS[0])
    expect(page.locator(".pg-align-step.pg-align-replaced")).to_have_text(re.compile("·cat.*≠.*·dog"), timeout=SOON)
    expect(page.locator("#pg-runs_next h2")).to_contain_text("(A, 9)", timeout=SOON)
    expect(page.locator("#pg-runs_b h2")).to_have_text(f"B: head {layer}.{head}", timeout=SOON)
    for part in ("runs_a", "runs_b", "runs_difference", "runs_heads"):
        page.locator(f"#pg-{part} [data-run]").wait_for(timeout=SOON)
    page.wait_for_timeout(500)  # the figures of one answer are drawn one after the other
    return page


def show(page, view):
    page.locator("#pg-compare_view").get_by_role("tab", name=view).click()


def run_of(page):
    return page.locator("#pg-runs_b [data-run]").get_attribute("data-run")


def redrawn(page, run):
    """All three maps are of another pair of runs."""
    for name in ("runs_a", "runs_b", "runs_difference"):
        expect(page.locator(f"#pg-{name} [data-run]")).not_to_have_attribute("data-run", run, timeout=SOON)


def type_b(page, text):
    run = run_of(page)
    page.locator("#pg-run_b textarea").fill(text)
    redrawn(page, run)


def cells(page, part):
    """What a heat map holds, as float64."""
    z = page.evaluate(
        """(part) => Array.from(document.querySelector(`#pg-${part} .pg-chart`)._fullData[0].z,
                                row => Array.from(row, v => Number.isFinite(v) ? v : null))""",
        part,
    )
    return np.array([[np.nan if value is None else value for value in row] for row in z])


def main_head(page):
    return tuple(page.evaluate("playground.selection.heads.at(-1)"))


def below(z):
    """The map with NaN above the diagonal."""
    return np.where(np.tril(np.ones_like(z, bool)), z, np.nan)


def assert_maps(page, a, b, pairs):
    head = main_head(page)
    one, two = below(a.pattern(*head)), below(b.pattern(*head))
    np.testing.assert_allclose(cells(page, "runs_a"), one, atol=ROUNDING)
    np.testing.assert_allclose(cells(page, "runs_b"), two, atol=ROUNDING)
    np.testing.assert_allclose(cells(page, "runs_difference"), difference(one, two, pairs), atol=2 * ROUNDING)


def test_the_first_view_compares_with_a_swapped_word(page, lm):
    a, b = lm.trace(COREFERENCE), lm.trace(DOG)
    assert_maps(page, a, b, [(t, t) for t in range(10)])
    expect(page.locator(".pg-align-step")).to_have_count(10)
    expect(page.locator(".pg-align-step.pg-align-replaced")).to_have_text(re.compile("·cat.*≠.*·dog"))
    assert page.locator(".pg-align-step.pg-align-replaced").get_attribute("aria-label") == "A: ·cat, B: ·dog: replaced"
    axis = "document.querySelector('#pg-runs_{} .pg-chart').layout.coloraxis"
    scales = [
        page.evaluate(f"(() => {{ const c = {axis.format(side)}; return [c.cmin, c.cmax]; }})()") for side in "ab"
    ]
    assert scales == [[0, 1], [0, 1]]
    low, high = page.evaluate(f"(() => {{ const c = {axis.format('difference')}; return [c.cmin, c.cmax]; }})()")
    assert low == -high == pytest.approx(-np.nanmax(np.abs(cells(page, "runs_difference"))))


def test_another_prompt_that_is_typed(page, lm):
    box = page.locator("#pg-run_b textarea")
    expect(box).to_have_value("")
    assert box.get_attribute("placeholder") == DOG
    box.focus()
    expect(box).to_have_value(DOG)  # to change a word of it
    page.locator("#pg-compare_question").click()
    box.blur()
    expect(box).to_have_value("")  # nothing was changed
    type_b(page, LONGER)
    a, b = lm.trace(COREFERENCE), lm.trace(LONGER)
    assert len(b.tokens) == 11
    expect(page.locator(".pg-align-key.pg-align-same")).to_contain_text("equal: 9")
    assert_maps(page, a, b, [(0, 0), *((t, t + 1) for t in range(2, 10))])
    assert np.isnan(cells(page, "runs_difference")[1]).all()
    show(page, "Patching")  # of the same two runs
    expect(page.locator("#pg-patching_job")).to_contain_text("A has 10, B has 11", timeout=SOON)


def test_tokens_of_a_are_selected_in_the_alignment_and_framed_in_both_maps(page, lm):
    type_b(page, LONGER)
    page.get_by_role("button", name="A: ·sat, B: ·sat: equal").click()
    assert page.evaluate("playground.selection.tokens") == [2]
    expect(page.locator(".pg-align-step[aria-pressed=true]")).to_have_count(1)
    expect(page.locator("#pg-runs_next h2")).to_have_text("Next token after “·sat” (A, 2) and “·sat” (B, 3)")
    rows = "document.querySelector('#pg-runs_{} .pg-chart').layout.shapes.map(s => s.y0)"
    assert page.evaluate(rows.format("a"))[0] == 1.5 and page.evaluate(rows.format("b"))[0] == 2.5
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate("playground.selection.tokens") == [3]


def test_next_tokens_of_both_runs(page, lm):
    names, *lines = exported_rows(page.locator("#pg-runs_next"))
    assert names == ["Token", "A", "B"]
    a, b = (softmax(lm.trace(text).logits_at(-1)) for text in (COREFERENCE, DOG))
    ids = sorted({*np.argsort(-a)[:10].tolist(), *np.argsort(-b)[:10].tolist()}, key=lambda i: -max(a[i], b[i]))
    np.testing.assert_allclose(
        [[float(x) for x in line[1:]] for line in lines], [[a[i], b[i]] for i in ids], atol=ROUNDING
    )
    expect(page.locator("#pg-runs_next tbody tr")).to_have_count(len(ids))


def test_a_head_clicked_in_the_map_of_heads_is_compared(page, lm):
    page.locator("#pg-runs_metric select").select_option("entropy")
    expect(page.locator("#pg-runs_heads h2")).to_have_text("Every head: entropy, A − B")
    a, b = (lm.trace(text).head_metrics()["entropy"].unstack() for text in (COREFERENCE, DOG))
    page.wait_for_function(
        "() => document.querySelector('#pg-runs_heads .pg-chart')._fullData[0].hovertemplate.includes('entropy')"
    )
    np.testing.assert_allclose(cells(page, "runs_heads"), (a - b).to_numpy(), atol=ROUNDING)
    page.evaluate(
        """document.querySelector('#pg-runs_heads .pg-chart').emit('plotly_click',
             { points: [{ pointIndex: [6, 3] }], event: new MouseEvent('click') })"""
    )
    expect(page.locator("#pg-runs_a h2")).to_have_text("A: head 6.3")
    expect(page.locator("#pg-runs_b h2")).to_have_text("B: head 6.3")


def test_the_edited_run_beside_its_original(page, lm):
    page.get_by_role("tab", name="The original, without edits").click()
    expect(page.locator("#pg-runs_alignment .pg-problem")).to_contain_text("No edits are active.")
    expect(page.locator("#pg-runs_a .pg-chart")).to_be_hidden()
    page.evaluate("playground.select({heads: [[6, 2]], edits: [{kind: 'zero', layer: 5, head: 0}]})")
    page.locator("#pg-runs_difference [data-run]").wait_for(timeout=SOON)
    expect(page.locator("#pg-runs_a h2")).to_have_text("A: head 6.2")
    original = lm.trace(COREFERENCE)
    edited = original.edit(Edit("zero", 5, 0))
    assert_maps(page, edited, original, [(t, t) for t in range(10)])
    assert np.nanmax(np.abs(cells(page, "runs_difference"))) > 1e-3
    expect(page.locator("#pg-runs_alignment .pg-problem")).to_be_hidden()


def test_patching_every_layer_and_position(page, lm):
    show(page, "Patching")
    page.locator("#pg-patching_form [data-name=site] select").select_option("attn_out")
    watch_token(page, "patching", "target", "and")
    watch_token(page, "patching", "distractor", ".")
    # It is quick and starts by itself.
    measured = "logit(“·and”) − logit(“.”) after the last token"
    expect(page.locator("#pg-patching_map h2")).to_contain_text(measured, timeout=SOON)
    still(page, "#pg-patching_map .js-plotly-plot")
    a, b = lm.trace(COREFERENCE), lm.trace(DOG)
    two = [lm.encode(text).ids.tolist() for text in (" and", ".")]
    target = Target("difference", -1, two[0][0], two[1][0])
    ends = metric(a, target), metric(b, target)
    expected = recovered(patch(a, b, target, "attn_out"), *ends)
    np.testing.assert_allclose(cells(page, "patching_map"), expected, atol=1e-3)
    expect(page.locator("#pg-patching_map .pg-about")).to_contain_text(signed(ends[0], places=2))
    page.evaluate(
        """(() => { const chart = document.querySelector('#pg-patching_map .pg-chart'), { customdata } = chart.data[0];
             chart.emit('plotly_click', { points: [{ customdata: customdata[2][1] }], event: {} }); })()"""
    )
    assert page.evaluate("playground.selection.tokens") == [1]
    page.locator("#pg-patching_form [data-name=site] select").select_option("mlp_out")
    expect(page.locator("#pg-patching_map .pg-chart")).to_be_hidden()  # that map is of another question
    page.locator("#pg-patching_form [data-name=by] select").select_option("head")
    expect(page.locator("#pg-patching_form [data-name=site]")).to_be_hidden()
    page.locator("#pg-patching_heads [data-run]").wait_for(timeout=SOON)
    shares = recovered(patch_heads(a, b, target), *ends)
    np.testing.assert_allclose(cells(page, "patching_heads"), shares, atol=1e-3)
    layer, head = (int(n) for n in np.unravel_index(np.abs(shares).argmax(), shares.shape))
    first = page.locator("#pg-patching_heads .pg-effect-item").first
    expect(first).to_contain_text(f"{layer}.{head}")
    first.click()
    expect(first).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("playground.selection.heads") == [[layer, head]]
    page.locator("#pg-patching_form [data-name=by] select").select_option("position")
    expect(page.locator("#pg-patching_heads .pg-chart")).to_be_hidden()


def test_another_model(page):
    page.get_by_role("tab", name="Another model").click()
    expect(page.locator("#pg-runs_alignment")).to_contain_text("different vocabularies", timeout=2 * SOON)
    if "smollm2-135m" not in available():
        return  # the other one is TinyMamba
    expect(page.locator("#pg-runs_difference [data-part]")).to_be_hidden()
    expect(page.locator("#pg-runs_heads .pg-problem")).to_contain_text("no counterparts")
    expect(page.locator("#pg-runs_next table")).to_have_count(2)
    page.locator("#pg-run_b [data-name=layer] input").fill("29")
    page.locator("#pg-run_b [data-name=head] input").fill("8")
    expect(page.locator("#pg-runs_b h2")).to_have_text("B: head 29.8", timeout=SOON)
    show(page, "Patching")
    expect(page.locator("#pg-patching_job")).to_contain_text("same model", timeout=SOON)


def test_a_prompt_that_cannot_be_run_is_said_here_and_the_page_goes_on(page):
    page.locator("#pg-run_b textarea").fill("word " * 600)
    expect(page.locator("#pg-runs_alignment .pg-problem")).to_contain_text("The prompt is too long", timeout=SOON)
    expect(page.locator("#pg-notice [data-part]")).to_be_hidden()
    page.locator("#pg-run_b textarea").fill(HOSTILE)
    expect(page.locator("#pg-runs_alignment .pg-problem")).to_be_hidden(timeout=SOON)
    page.locator("#pg-runs_difference [data-run]").wait_for(timeout=SOON)
    assert page.locator("#pg-runs_alignment img, #pg-runs_alignment script, #pg-runs_b .pg-chart img").count() == 0
    expect(page.locator(".pg-align-step").last).to_be_visible()
