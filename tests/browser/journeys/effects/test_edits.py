"""The effects tab as a visitor uses it: edits in force on every tab, what they do, and every head in turn."""

import re

import numpy as np
import pytest

from model.attention.effects import Target, next_tokens, sweep
from model.gpt.edits import Edit
from tests.support.visitor import SOON, expect, exported_rows, open_tab, still, watch_token

pytestmark = pytest.mark.browser

COREFERENCE = "The cat sat on the mat because it was tired"
# The app and the test may have chosen different float32 products: what 8 layers make of them differs by rounding.
ROUNDING = 2e-5


def open_effects(page, name="Effects"):
    open_tab(page, name)
    show(page, "edits")
    page.locator("#pg-edits_next [data-run]").wait_for(timeout=SOON)


def show(page, view):
    """Open a view of the tab: "edits" or "sweep"."""
    page.locator(f"#pg-effects_view [data-key={view}]").click()


@pytest.fixture
def page(same_page, lm):
    """A page with the effects tab open: the first prompt and head, no edits, and both forms as they are at first."""
    page = same_page()
    if page.locator("#prompt textarea").input_value() != COREFERENCE:
        page.locator("#prompt textarea").fill(COREFERENCE)
    # A long prompt's row of tokens goes: what is below it moves, and is not to be clicked before.
    expect(page.locator("#pg-tokens .pg-chip")).to_have_count(len(lm.encode(COREFERENCE)), timeout=SOON)
    page.evaluate("playground.select({tokens: [], edits: [], target: null, distractor: null})")
    open_effects(page)
    expect(page.locator("#pg-edits_next h2")).to_contain_text("(position 9)", timeout=SOON)
    expect(page.locator("#pg-edits_next")).to_contain_text("Apply an edit to see what changes", timeout=SOON)
    first = [int(n) for n in lm.trace(COREFERENCE).head_metrics()["previous_token"].idxmax()]
    page.evaluate("head => playground.select({heads: [head]})", first)
    if field(page, "where").is_visible():
        field(page, "where").select_option("picked")
    field(page, "of").select_option("heads")
    field(page, "kind").select_option("zero")
    show(page, "sweep")
    for name, value in (("how", "zero"), ("kind", "logit")):
        setting = page.locator(f"#pg-sweep_form [data-name={name}] select")
        if setting.input_value() != value:
            setting.select_option(value)
    expect(page.locator("#pg-sweep_job")).to_contain_text("Measured here in", timeout=SOON)  # it starts by itself
    show(page, "edits")
    return page


def field(page, name):
    return page.locator(f".pg-edits [data-name={name}]").locator("select, input")


def head(page):
    """The picked head."""
    return page.evaluate("playground.selection.heads.at(-1)")


def apply(page):
    page.get_by_role("button", name="Apply").click()


def chips(page):
    """The edits in the line above the tabs; more than three are one button."""
    return page.locator("#pg-edited .pg-edit")


def shown(page):
    """The name of the run whose next tokens are shown."""
    return page.locator("#pg-edits_next [data-part]").get_attribute("data-run")


def changed(page, run):
    expect(page.locator("#pg-edits_next [data-part]")).not_to_have_attribute("data-run", run, timeout=SOON)


def rows(page):
    """The table of next tokens as its CSV has it: id, p before, p after, logit before, logit after."""
    names, *lines = exported_rows(page.locator("#pg-edits_next"))
    assert names[:2] == ["id", "Token"]
    return {int(line[0]): [float(number) for number in line[2:]] for line in lines}


def assert_rows(page, before, after, position=-1):
    """The table holds the likeliest tokens of both runs, with what the runs' logits say."""
    found = rows(page)
    assert list(found) == next_tokens(before, after, position)["id"].tolist()
    logits = np.stack([run.logits_at(position).astype(float) for run in (before, after)])
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    for number, values in found.items():
        assert values[:2] == pytest.approx(shares[:, number], abs=ROUNDING)
        assert values[2:] == pytest.approx(logits[:, number], abs=10 * ROUNDING)


def test_a_head_that_is_off_is_off_on_every_tab_until_it_is_removed(page, lm):
    layer, number = head(page)
    plain, run = lm.trace(COREFERENCE), shown(page)
    assert_rows(page, plain, plain)
    expect(page.locator("#pg-edits_next")).to_contain_text("Apply an edit to see what changes")
    apply(page)
    changed(page, run)
    expect(chips(page)).to_have_text([re.compile(rf"head {layer}\.{number} off")])
    expect(page.locator("#pg-edited")).to_contain_text("Every tab shows the edited run.")
    expect(page.locator(".pg-effect-active li")).to_have_count(1)
    edited = plain.edit(Edit("zero", layer, number))
    assert_rows(page, plain, edited)
    expect(page.locator(".pg-effect-facts")).to_contain_text("KL(before ‖ after)")
    open_tab(page, "Attention")
    expect(page.locator("#pg-map_plot .pg-source")).to_contain_text("edited run", timeout=SOON)
    open_tab(page, "Effects")
    chips(page).get_by_role("button").click()
    expect(page.locator("#pg-edits_next [data-part]")).to_have_attribute("data-run", run, timeout=SOON)
    expect(chips(page)).to_have_count(0)
    assert_rows(page, plain, plain)


def test_a_blocked_link_moves_the_prediction(page, lm):
    field(page, "kind").select_option("block_edge")
    told = page.locator(".pg-effect-told")
    field(page, "query").select_option("2")
    field(page, "key").select_option("5")
    expect(told).to_contain_text("cannot attend to a later one")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    field(page, "query").select_option("0")
    field(page, "key").select_option("0")
    expect(told).to_contain_text("nothing would be left")
    field(page, "query").select_option("9")
    field(page, "key").select_option("1")
    field(page, "where").select_option("all")
    expect(told).to_be_empty()
    run = shown(page)
    apply(page)
    changed(page, run)
    expect(chips(page)).to_have_text([re.compile("edge 9 → 1 blocked")])
    plain = lm.trace(COREFERENCE)
    assert_rows(page, plain, plain.edit(Edit("block_edge", query=9, key=1)))


def test_the_last_link_of_a_row_cannot_be_blocked(page):
    page.locator(".pg-chip").nth(1).click()
    field(page, "kind").select_option("block_edge")
    expect(field(page, "query")).to_have_value("1")
    expect(field(page, "key")).to_have_value("0")
    run = shown(page)
    apply(page)
    changed(page, run)
    expect(page.locator(".pg-chip[aria-pressed=true]")).to_have_count(1)  # the same prompt, so it is still picked
    field(page, "key").select_option("1")
    expect(page.locator(".pg-effect-told")).to_contain_text("would have no key left")
    field(page, "where").select_option("all")
    expect(page.locator(".pg-effect-told")).to_contain_text("would have no key left")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()


def test_several_heads_one_edit_each_and_undo(page, lm):
    plain, first = lm.trace(COREFERENCE), head(page)
    field(page, "layer").select_option("7")
    field(page, "head").select_option("2")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".pg-effect-heads .pg-selected")).to_have_count(2)
    run = shown(page)
    apply(page)
    expect(chips(page)).to_have_count(2)
    changed(page, run)
    field(page, "kind").select_option("scale")
    field(page, "factor").fill("1000")
    expect(page.locator(".pg-effect-told")).to_contain_text("from -100 to 100")
    field(page, "factor").fill("")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    field(page, "factor").fill("-1.5")
    run = shown(page)
    apply(page)
    changed(page, run)
    expect(chips(page)).to_have_count(2)  # in place of the two before
    expect(chips(page).first).to_contain_text("× -1.5")
    assert_rows(page, plain, plain.edit(Edit("scale", *first, -1.5), Edit("scale", 7, 2, -1.5)))
    field(page, "kind").select_option("first_token")
    apply(page)
    expect(chips(page)).to_have_text(["4 edits "])  # where a head looks is another matter than what it writes
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").click()
    expect(chips(page)).to_have_text([re.compile("off"), re.compile("off")])
    page.get_by_role("button", name="Remove edits").click()
    expect(chips(page)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(chips(page)).to_have_count(2)


def test_an_mlp_a_neuron_and_a_direction(page, lm):
    plain, on = lm.trace(COREFERENCE), int(lm.encode(COREFERENCE).ids[3])
    given = (
        ("mlp", "mlp_mean", {"block": "5"}, "MLP 5 at its mean", Edit("mlp_mean", 5)),
        (
            "neuron",
            "neuron_value",
            {"neuron": "17", "value": "-2"},
            "neuron 5.17 = -2",
            Edit("neuron_value", 5, neuron=17, value=-2.0),
        ),
        (
            "direction",
            "add_direction",
            {"token": str(on), "factor": "30"},
            "direction of “·on” × 30 added after layer 5",
            Edit("add_direction", 5, factor=30.0, token=on),
        ),
    )
    edits = []
    for of, kind, values, name, edit in given:
        field(page, "of").select_option(of)
        field(page, "kind").select_option(kind)
        expect(page.locator(".pg-effect-heads")).to_be_hidden()
        for each, value in values.items():
            if field(page, each).evaluate("node => node.tagName") == "SELECT":
                field(page, each).select_option(value)
            else:
                field(page, each).fill(value)
        run = shown(page)
        apply(page)
        changed(page, run)
        edits.append(edit)
        expect(chips(page).last).to_contain_text(name)
        expect(page.locator(".pg-effect-active li").last).to_contain_text(name)
        assert_rows(page, plain, plain.edit(*edits))
    field(page, "of").select_option("neuron")
    field(page, "neuron").fill("99999")
    expect(page.locator(".pg-effect-told")).to_contain_text("a whole number from 0 to")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()


def test_another_token_another_position(page, lm):
    run = shown(page)
    page.locator(".pg-chip").nth(3).click()
    changed(page, run)
    expect(page.locator("#pg-edits_next h2")).to_have_text("Next token after “·on” (position 3)")
    plain = lm.trace(COREFERENCE)
    assert_rows(page, plain, plain, 3)


def drawn_map(page):
    """The numbers of the map, [layers, heads]."""
    page.locator("#pg-sweep_map .js-plotly-plot").wait_for(timeout=SOON)
    return np.array(
        page.evaluate(
            "() => Array.from(document.querySelector('#pg-sweep_map .pg-chart')._fullData[0].z,"
            " (row) => Array.from(row))"
        )
    )


def test_the_sweep_shows_every_heads_effect_and_picks_heads(page, lm):
    show(page, "sweep")
    expect(page.locator("#pg-sweep_map .js-plotly-plot")).to_be_visible(timeout=SOON)
    form = page.locator("#pg-sweep_form")
    form.locator("[data-name=how] select").select_option("mean")
    form.locator("[data-name=kind] select").select_option("difference")
    target = page.locator("#pg-sweep_targets [data-name=target] input")
    target.fill("·because of")
    expect(page.locator(".pg-targets-said:visible")).to_contain_text("is 2 tokens here: “·because” “·of”")
    watch_token(page, "sweep", "target", "and")  # with its space, as it is a likely next token
    expect(page.locator(".pg-targets-said:visible")).to_contain_text("with a leading space")
    show(page, "edits")
    page.locator("#pg-edits_next").get_by_role("button", name="Make “·of” the distractor").click()
    expect(page.locator("#pg-selection")).to_contain_text("distractor ·of")
    show(page, "sweep")
    token, other = (lm.encode(text).ids.tolist()[0] for text in (" and", " of"))
    watched = f"“·and” (id {token}) minus that of “·of” (id {other})"
    expect(page.locator("#pg-sweep_job")).to_contain_text(watched, timeout=SOON)
    expect(page.locator("#pg-sweep_job")).to_contain_text("Measured here in", timeout=SOON)  # it started by itself
    effects = sweep(lm.trace(COREFERENCE), "mean", Target("difference", -1, token, other))
    assert drawn_map(page) == pytest.approx(-effects, abs=10 * ROUNDING)
    expect(page.locator("#pg-sweep_map h2")).to_have_text(
        "Effect on logit(“·and”) − logit(“·of”) at position 9: original minus ablated, "
        "each head replaced with its mean in turn"
    )
    layer, number = (int(n) for n in np.unravel_index(np.abs(effects).argmax(), effects.shape))
    strongest = page.locator(".pg-effect-item").first
    expect(strongest).to_contain_text(f"{layer}.{number}")
    strongest.click()
    expect(page.locator("#pg-selection")).to_contain_text(f"head {layer}.{number}")
    expect(strongest).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".pg-effect-item").nth(1)).to_be_focused()
    still(page, "#pg-sweep_map .pg-chart")
    place = page.evaluate(
        """() => { const plot = document.querySelector('#pg-sweep_map .pg-chart'); plot.scrollIntoView();
                   const l = plot._fullLayout, r = plot.getBoundingClientRect();
                   return [r.left + l.xaxis._offset + l.xaxis.l2p(5), r.top + l.yaxis._offset + l.yaxis.l2p(3)]; }"""
    )
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    expect(page.locator("#pg-sweep_map .hoverlayer")).to_contain_text("layer 3, head 5")
    page.mouse.click(*place)
    expect(page.locator("#pg-selection")).to_contain_text("head 3.5")
    expect(page.locator("#pg-sweep_map .js-plotly-plot")).to_be_visible()


def test_while_a_sweep_runs_clicks_are_answered_and_it_can_be_cancelled(page):
    page.locator("#prompt textarea").fill((f"{COREFERENCE}. " * 40).strip())
    expect(page.locator("#pg-edits_next h2")).to_contain_text(re.compile(r"position 4\d\d"), timeout=SOON)
    show(page, "sweep")
    page.locator("#pg-sweep_form [data-name=kind] select").select_option("loss")
    expect(page.locator("#pg-sweep_job")).to_contain_text("the loss of the whole prompt", timeout=SOON)
    page.locator("#pg-sweep_job button").click()
    bar = page.locator("#pg-sweep_job progress")
    bar.wait_for(timeout=SOON)
    open_tab(page, "Attention")
    page.get_by_role("button", name="Head 6.3", exact=True).click()
    expect(page.locator("#pg-map_plot h2")).to_have_text("Head 6.3", timeout=SOON)
    open_tab(page, "Effects")
    expect(bar).to_be_visible()  # the sweep is not done: the head was drawn in between
    moved = """async () => {
        const [bar, cancel] = document.querySelectorAll("#pg-sweep_job :is(progress, button)"), then = bar.value;
        while (bar.isConnected && bar.value === then) await new Promise(requestAnimationFrame);
        return cancel.isConnected; }"""
    assert page.evaluate(moved)  # the bar moves, and the button beside it stays the same one
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#pg-sweep_job")).to_contain_text("Stopped.", timeout=SOON)
    expect(bar).to_have_count(0)
    expect(page.locator("#pg-sweep_map [data-example]")).to_be_visible()
    expect(page.locator("#pg-sweep_job").get_by_role("button", name="Try again")).to_be_enabled()


def test_an_edit_while_a_sweep_runs_leaves_no_bar_behind(page):
    page.locator("#prompt textarea").fill((f"{COREFERENCE}. " * 40).strip())
    expect(page.locator("#pg-edits_next h2")).to_contain_text("position 439", timeout=SOON)
    run = shown(page)
    show(page, "sweep")
    page.locator("#pg-sweep_job").get_by_role("button", name="Switch off every").click(timeout=SOON)
    page.locator("#pg-sweep_job progress").wait_for(timeout=SOON)
    show(page, "edits")
    apply(page)
    changed(page, run)
    show(page, "sweep")
    expect(page.locator("#pg-sweep_job").get_by_role("button", name="Switch off every")).to_be_enabled(timeout=SOON)
    page.wait_for_timeout(1000)
    expect(page.locator("#pg-sweep_job progress")).to_have_count(0, timeout=SOON)
    expect(page.locator("#pg-sweep_map")).to_contain_text("Nothing measured")
    show(page, "edits")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#pg-edits_next [data-part]")).to_have_attribute("data-run", run, timeout=SOON)
    show(page, "sweep")
    expect(page.locator("#pg-sweep_map .js-plotly-plot")).to_be_visible(timeout=SOON)


def test_one_token_has_no_link_to_block(page):
    run = shown(page)
    page.locator("#prompt textarea").fill("The")
    changed(page, run)
    field(page, "kind").select_option("block_edge")
    expect(page.locator(".pg-effect-told")).to_contain_text("nothing would be left")
    show(page, "sweep")
    page.locator("#pg-sweep_form [data-name=kind] select").select_option("loss")
    expect(page.locator("#pg-sweep_job")).to_contain_text("at least two tokens", timeout=SOON)


@pytest.mark.parametrize("width", [1280, 390])
def test_twelve_edits_fit_in_one_line_and_are_listed_on_a_click(page, width):
    usual = page.viewport_size
    page.set_viewport_size({"width": width, "height": 800})
    edits = [{"kind": "zero", "layer": layer, "head": head} for layer in range(4) for head in range(3)]
    page.evaluate("edits => playground.select({ edits })", edits)
    line = page.locator("#pg-edited")
    expect(line.locator(".pg-change")).to_contain_text("→", timeout=SOON)
    for text in ("12 heads off", "Undo", "Remove edits", "Every tab shows the edited run."):
        box = line.get_by_text(text).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    line.get_by_role("button", name="12 heads off").click()
    expect(page.locator(".pg-edits-list li").filter(visible=True)).to_have_count(12)
    page.get_by_role("button", name="Remove: head 3.2 off").filter(visible=True).first.click()
    expect(line).to_contain_text("11 heads off")
    page.set_viewport_size(usual)
