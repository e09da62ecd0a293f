"""Why this number and Find the head as a visitor uses them: the model's numbers, by mouse and by keyboard."""

import re

import numpy as np
import pytest

from model.attention.cell import explain
from model.attention.find_heads import rank_heads
from tests.browser.conftest import READY
from tests.support.visitor import export, exported_rows, still

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

ROUNDING = 2e-5  # the app and the test may have chosen different float32 products
CAT = "The cat sat on the mat because it was tired"
HOSTILE = "a_b <img src=x onerror=alert(1)> ${alert(2)} {query} {{x}} \u202e </script> &lt; 👩‍🚀 \n\n end"


@pytest.fixture(scope="module")
def first_head(lm):
    """The head that is picked at first, [layer, head]."""
    return [int(n) for n in lm.trace(CAT).head_metrics()["previous_token"].idxmax()]


@pytest.fixture
def page(same_page, first_head):
    """A page that shows the first prompt and head on the map, and nothing else is picked."""
    page = same_page(ready=READY)
    if page.locator("#prompt textarea").input_value() != CAT:
        page.locator("#prompt textarea").fill(CAT)
    expect(page.locator("#pg-header")).to_contain_text("10 tokens")
    page.evaluate("head => playground.select({heads: [head], tokens: [], edits: []})", first_head)
    open_view(page, "cell")  # drawn here, or an earlier test's cell would stand there for a moment
    expect(on_page(page, "cell_steps")).to_have_attribute("data-run", re.compile(r" {}\.{} 9 \d+$".format(*first_head)))
    open_view(page, "map")
    expect(on_page(page, "map_plot")).to_have_attribute("data-run", re.compile(" {}.{}$".format(*first_head)))
    return page


def open_view(page, name):
    page.locator(f"[data-key={name}]").click()


def on_page(page, part):
    return page.locator(f"#pg-{part} [data-part]")


def click_cell(page, query, key):
    still(page, "#pg-map_plot .pg-chart")
    box = page.evaluate(
        """([q, k]) => { const gd = document.querySelector('#pg-map_plot .pg-chart');
             const l = gd._fullLayout;
             const r = gd.getBoundingClientRect();
             return [r.left + l.xaxis._offset + l.xaxis.c2p(k), r.top + l.yaxis._offset + l.yaxis.c2p(q)]; }""",
        [query, key],
    )
    page.mouse.move(box[0] - 2, box[1])
    page.mouse.move(*box)
    expect(page.locator("#pg-map_plot .hoverlayer")).to_contain_text(f"{query} ")
    page.mouse.click(*box)


def full(page, step):
    """The numbers of a step, all their digits."""
    numbers = page.locator(f"#pg-cell_steps [data-step={step}] .pg-figure-number")
    return np.array(numbers.evaluate_all("all => all.map(n => +n.title)"))


def explained(page, run, query, key):
    expect(on_page(page, "cell_steps")).to_have_attribute("data-run", re.compile(rf" {query} {key}$"))
    place = on_page(page, "cell_steps").get_attribute("data-run").split()[1]
    layer, head = (int(n) for n in place.split("."))
    return explain(run, layer, head, query, key)


def near(found, value):
    return np.abs(found - value).min() <= ROUNDING * max(1, abs(value))


def test_a_click_on_a_cell_is_explained_with_the_models_numbers(page, lm):
    run = lm.trace(CAT)
    click_cell(page, 7, 1)
    open_view(page, "cell")
    ours = explained(page, run, 7, 1)
    why = page.locator("#pg-cell_steps")
    expect(why.locator("h2")).to_contain_text(f"Why head {ours.layer}.{ours.head} at ·it (7) puts weight")
    expect(why.locator("li")).to_have_count(7)
    assert near(full(page, "products"), ours.dot)
    assert near(full(page, "score"), ours.score)
    assert near(full(page, "softmax"), ours.weight) and near(full(page, "softmax"), ours.denominator)
    assert near(full(page, "value"), ours.output_norm)
    assert near(full(page, "check"), float(run.pattern(ours.layer, ours.head)[7, 1]))
    expect(why.locator("[data-step=check] .pg-why-same .pg-icon")).to_be_visible()
    shown = why.locator("tbody tr td:nth-child(4)").all_text_contents()
    assert f"{sum(float(text) for text in shown[:-1]):.4f}" == shown[-1]


def test_products_that_are_shown_add_up(page):
    open_view(page, "cell")
    line = page.locator("#pg-cell_steps [data-step=products] .pg-why-formula > div:last-child")
    left, right = re.sub(r"\s", "", line.inner_text()).replace("−", "-").removeprefix("q·k=").split("=")
    parts = [float(part) for part in re.findall(r"[+-]?[\d.]+", left)]
    decimals = len(right.partition(".")[2])
    assert len(parts) == 4 and f"{sum(parts):.{decimals}f}" == right


def test_pickers_walk_the_cells_by_keyboard(page, lm):
    run = lm.trace(CAT)
    open_view(page, "cell")
    page.get_by_label("Key token", exact=True).select_option("1")
    query = page.get_by_label("Query token", exact=True)
    query.select_option("4")
    ours = explained(page, run, 4, 1)
    assert near(full(page, "softmax"), ours.weight)
    later = page.get_by_role("button", name="Key token: One token later")
    later.focus()
    for _ in range(2):
        page.keyboard.press("Enter")
    ours = explained(page, run, 4, 3)
    assert near(full(page, "softmax"), ours.weight)
    expect(later).to_be_focused()
    page.keyboard.press("Enter")
    explained(page, run, 4, 4)
    expect(later).to_be_disabled()
    expect(page.locator("#pg-why-key option")).to_have_count(5)
    query.select_option("2")  # the key may not come after it
    ours = explained(page, run, 2, 2)
    assert near(full(page, "softmax"), ours.weight)
    expect(page.locator(".pg-chip[aria-pressed=true]").first).to_have_text("·sat")
    page.locator("#pg-cell_steps tbody button", has_text="The (0)").click()
    explained(page, run, 2, 0)
    expect(page.locator("#pg-cell_steps [aria-current]")).to_be_focused()


def test_dimensions_are_walked_with_arrows(page, lm):
    run = lm.trace(CAT)
    open_view(page, "cell")
    page.get_by_label("Key token", exact=True).select_option("2")
    ours = explained(page, run, 9, 2)
    strip = page.get_by_role("slider", name="Dimensions").first
    strip.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"^dimension 1 · q "))
    told = strip.get_attribute("aria-valuetext").replace("−", "-")
    assert float(re.search(r"q·k (-?[\d.]+)(?: |$)", told)[1]) == pytest.approx(ours.products[1], rel=1e-3)
    page.get_by_role("button", name="by size").click()
    bars = page.get_by_role("slider", name="Dimensions").nth(1)
    bars.focus()
    page.keyboard.press("Home")
    expect(bars).to_have_attribute("aria-valuenow", str(np.abs(ours.products).argmax()))


def _rounding(values):
    """What float32 may differ by, of numbers of this size."""
    return ROUNDING * max(1.0, float(np.abs(values).max()))


def test_an_edit_is_the_reason_for_another_weight(page, lm):
    open_view(page, "cell")
    expect(on_page(page, "cell_steps")).to_have_attribute("data-run", re.compile(r" 9 \d+$"))
    layer, head = page.evaluate("playground.selection.heads.at(-1)")
    page.evaluate("([layer, head]) => playground.select({edits: [{kind: 'uniform', layer, head}]})", [layer, head])
    check = page.locator("#pg-cell_steps [data-step=check]")
    expect(check).to_contain_text("an edit replaces this head's map")
    expect(check).to_contain_text("0.1000")
    page.evaluate("playground.select({edits: []})")
    expect(check.locator(".pg-why-same .pg-icon")).to_be_visible()
    softmax = page.locator("#pg-cell_steps [data-step=softmax]")
    softmax.get_by_text("Code", exact=True).click()
    expect(softmax.get_by_text("return scores.softmax(-1)")).to_be_visible()


def test_numbers_can_be_taken_away(page, lm):
    run = lm.trace(CAT)
    open_view(page, "cell")
    page.get_by_label("Key token", exact=True).select_option("3")
    ours = explained(page, run, 9, 3)
    rows = exported_rows(page.locator("#pg-cell_steps"))
    products = [float(row[3]) for row in rows if row[0] == "products"]
    assert products == pytest.approx(ours.products.tolist(), abs=_rounding(ours.products))
    assert len([row for row in rows if row[0] == "row_scores"]) == 10
    with np.load(export(page.locator("#pg-cell_steps"), "NPZ")) as arrays:
        assert arrays["q_raw"] == pytest.approx(ours.q_raw, abs=_rounding(ours.q_raw))
        assert arrays["weight"] == pytest.approx([ours.weight], abs=ROUNDING)
    page.locator("#pg-cell_steps").get_by_role("button", name="Python").click()
    expect(page.locator("#pg-cell_steps pre")).to_contain_text(f"explain(run, {ours.layer}, {ours.head}, 9, 3)")
    page.locator("#pg-cell_steps").get_by_role("button", name="Table").click()
    expect(page.locator("#pg-cell_steps .pg-table tbody tr")).to_have_count(32)


def test_the_head_that_looks_from_it_to_cat_is_found(page, lm):
    values = rank_heads(lm.trace(CAT), [7], [1])
    layer, head = np.unravel_index(values.argmax(), values.shape)
    open_view(page, "find")
    find = page.locator("#pg-find_rows")
    for row, token in (("from", "·it"), ("to", "·cat")):
        find.locator(f"[data-row={row}] .pg-chip", has_text=token).click()
    expect(find.locator(".pg-find-said")).to_have_text(
        f"Head {layer}.{head} attends from ·it (7) to ·cat (1) with weight {values.max():.4f}."
    )
    heads = find.locator(".pg-find-head")
    expect(heads).to_have_count(12)
    shown = [float(text) for text in heads.locator(".pg-figure-number").all_text_contents()]
    assert shown == pytest.approx(sorted(values.ravel().tolist(), reverse=True)[:12], abs=1e-4)
    heads.first.click()
    expect(page.locator("#pg-selection")).to_contain_text(f"head {layer}.{head}")
    expect(page.locator("#pg-overview_heads .pg-head[aria-pressed=true]")).to_have_attribute(
        "aria-label", re.compile(rf"Head {layer}\.{head}\b")
    )
    expect(heads.first).to_have_attribute("aria-pressed", "true")
    heads.nth(1).click(modifiers=["Control"])
    expect(find.locator(".pg-find-head[aria-pressed=true]")).to_have_count(2)
    expect(find.locator("[data-row=from] [aria-pressed=true]")).to_have_text("·it")
    expect(on_page(page, "find_map")).to_have_attribute("data-run", re.compile(" weights 7 1$"))
    drawn = page.evaluate(
        "Array.from(document.querySelector('#pg-find_map .pg-chart')._fullData[0].z, r => Array.from(r))"
    )
    assert np.array(drawn) == pytest.approx(values, abs=ROUNDING)


def test_rows_follow_the_selection_and_new_prompts(open_page):
    page = open_page(ready=READY)  # rows chosen by an earlier test would stay
    open_view(page, "find")
    row = {name: page.locator(f"#pg-find_rows [data-row={name}] [aria-pressed=true]") for name in ("from", "to")}
    expect(row["from"]).to_have_text("·tired")
    keys = row["to"].all_text_contents()
    for place in range(12):  # other heads read other tokens most, yet the question stays
        page.locator(".pg-find-head").nth(place).click()
        expect(page.locator(".pg-find-head").nth(place)).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(600)
    assert row["to"].all_text_contents() == keys
    page.evaluate("playground.select({tokens: [7, 1], pair: [7, 1]})")
    expect(row["from"]).to_have_text("·it")
    expect(row["to"]).to_have_text("·cat")
    chips = page.locator("#pg-tokens .pg-chip")
    chips.nth(2).click()
    chips.nth(6).click(modifiers=["Shift"])
    chips.nth(4).click(modifiers=["Shift"])
    expect(row["from"]).to_have_text("·because")
    expect(row["to"]).to_have_text(["·sat", "·the"])
    page.locator("#pg-find_rows").get_by_label("Compare heads by").select_option("value_weighted")
    expect(page.locator("#pg-find_rows .pg-find-said")).to_contain_text("the longest vector")
    page.locator("#prompt textarea").fill("One day a bird saw")
    expect(row["from"]).to_have_text("·saw")
    expect(page.locator("#pg-find_rows .pg-find-said")).to_contain_text("the longest vector")


def test_rows_that_make_no_sense_can_be_corrected(page):
    open_view(page, "find")
    page.evaluate("playground.select({tokens: [7, 1], pair: [7, 1]})")
    find = page.locator("#pg-find_rows")
    keys = find.locator("[data-row=to] .pg-chip")
    expect(find.locator(".pg-find-said")).to_contain_text("to ·cat (1)")
    keys.nth(1).click()  # the only one
    expect(find.locator(".pg-find-problem")).to_contain_text("No key token is selected.")
    keys.nth(9).click()
    expect(find.locator(".pg-find-problem")).to_contain_text("A token can only attend to earlier tokens.")
    expect(page.locator("#pg-find_map .pg-problem")).to_contain_text("A token can only attend to earlier tokens.")
    keys.nth(0).click(modifiers=["Control"])
    expect(find.locator(".pg-find-problem")).to_be_hidden()
    expect(find.locator(".pg-find-said")).to_contain_text("to The (0), ·tired (9)")
    find.locator("[data-row=from] .pg-chip").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+Enter"):
        page.keyboard.press(key)
    expect(find.locator("[data-row=from] [aria-pressed=true]")).to_have_text(["·sat", "·it"])
    expect(find.locator(".pg-find-said")).to_contain_text("the mean over 2 query tokens")


def test_hostile_tokens_are_text_in_both_views(page, lm):
    page.locator("#prompt textarea").fill(HOSTILE)
    T = len(lm.encode(HOSTILE))
    open_view(page, "cell")
    expect(page.locator("#pg-why-query option")).to_have_count(T)
    assert page.locator("#pg-cell_steps img").count() == 0
    open_view(page, "find")
    expect(page.locator("#pg-find_rows [data-row=from] .pg-chip")).to_have_count(T)
    page.locator("#pg-find_rows").get_by_role("button", name="Query tokens: All").click()
    expect(page.locator("#pg-find_rows .pg-find-said")).to_contain_text(f"and {T - 3} more")
    assert "\u202e" not in page.locator("#pg-find_rows").inner_text()
    page.locator("#prompt textarea").fill("a")
    open_view(page, "cell")
    expect(page.locator("#pg-cell_steps h2")).to_contain_text("puts weight 1")
