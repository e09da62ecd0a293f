"""Journeys through the page as a visitor makes them."""

import re

import pytest

from tests.browser.conftest import FIRST, READY
from tests.support.visitor import SOON, export, exported_rows, open_tab
from viz.seam.scene import default_head

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

# The app and the test may have chosen different float32 products: weights through 8 layers then differ by rounding.
ROUNDING = 2e-5
COREFERENCE = "The cat sat on the mat because it was tired"
GIFT = "When Mary and John went to the store, John gave a drink to"
HOSTILE = "<img src=x onerror=alert(1)> ${alert(2)} {{value}} <b>bold</b> \u202e \\x3cscript>alert(3)</script> &lt;"


@pytest.fixture
def page(same_page):
    """A page with the first prompt and head, and no token picked."""
    page = same_page(ready=READY)
    if page.locator("#prompt textarea").input_value() != COREFERENCE:
        type_prompt(page, COREFERENCE)
    expect(chips(page)).to_have_count(10)
    page.evaluate("playground.select({heads: [[5, 0]], tokens: []})")
    shows(page, 5, 0)
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z.length === 10")
    return page


def shows(page, layer, head):
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(rf" {layer}\.{head}$"))


def type_prompt(page, text):
    page.locator("#prompt textarea").fill(text)


def chips(page):
    return page.locator(".pg-chip")


def cells(page):
    """What the heat map holds, NaN as None."""
    return page.evaluate(
        """() => { const z = document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z;
                   return Array.from(z, row => Array.from(row, v => Number.isFinite(v) ? v : null)); }"""
    )


def assert_pattern(page, lm, prompt, layer, head):
    pattern = lm.trace(prompt).pattern(layer, head)
    drawn = cells(page)
    assert len(drawn) == len(pattern)
    for i, row in enumerate(drawn):
        assert row[i + 1 :] == [None] * (len(drawn) - i - 1)
        assert row[: i + 1] == pytest.approx(pattern[i, : i + 1].tolist(), abs=ROUNDING)


def test_first_paint_shows_a_computed_example(same_page, lm):
    page = same_page(ready=READY)  # the file's first test: a new page
    expect(chips(page)).to_have_count(10)
    expect(page.locator(".pg-head")).to_have_count(64)
    expect(page.locator("#pg-header")).to_contain_text("8.5M parameters · float32 · cpu")
    expect(page.locator("#pg-header")).to_contain_text("10 tokens")
    head = default_head(lm.trace(COREFERENCE))
    shows(page, *head)
    assert_pattern(page, lm, COREFERENCE, *head)


def test_click_on_a_head_opens_it(page, lm):
    page.get_by_role("button", name="Head 6.1", exact=True).click()
    shows(page, 6, 1)
    expect(page.locator("#pg-map_plot h2")).to_have_text("Head 6.1")
    expect(page.locator("#pg-selection")).to_contain_text("head 6.1")
    expect(page.locator(".pg-head[aria-pressed=true]")).to_have_count(1)
    expect(page.locator(".pg-readout")).to_contain_text("Head 6.1")
    assert_pattern(page, lm, COREFERENCE, 6, 1)


def test_quick_clicks_end_on_the_last_head(page):
    for head in range(5):
        page.get_by_role("button", name=f"Head 3.{head}", exact=True).click()
    shows(page, 3, 4)
    page.wait_for_timeout(600)
    shows(page, 3, 4)


def test_typing_updates_everything_and_keeps_the_head(page, lm):
    page.get_by_role("button", name="Head 2.5", exact=True).click()
    shows(page, 2, 5)
    before = page.locator("#pg-overview_heads [data-part]").get_attribute("data-run")
    page.locator("#prompt textarea").fill("")
    page.locator("#prompt textarea").press_sequentially(GIFT, delay=30)
    expect(chips(page)).to_have_count(14)
    expect(page.locator("#pg-overview_heads [data-part]")).not_to_have_attribute("data-run", before)
    expect(chips(page).last).to_have_text("·to")
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z.length === 14")
    shows(page, 2, 5)
    assert_pattern(page, lm, GIFT, 2, 5)


def test_example_fills_the_prompt(page):
    page.get_by_role("button", name="Examples").click()
    offered = page.get_by_role("dialog", name="Prompts with a visible effect")
    expect(offered.locator(".pg-example")).to_have_count(6)
    expect(offered.get_by_role("button", name="Show it")).to_have_count(6)
    page.keyboard.press("Escape")
    expect(offered).to_be_hidden()
    page.get_by_role("button", name="Examples").click()
    offered.locator(".pg-example", has_text="Repeated text").click()
    expect(offered).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("Mrs Pemberton"))
    expect(chips(page).nth(1)).to_have_text("·P")
    page.get_by_role("button", name="Head 7.0", exact=True).hover()
    expect(page.locator(".pg-readout")).to_contain_text(re.compile(r"induction(0\.\d|1)"))


def test_tokens_show_their_id_and_mark_the_picture(page, lm):
    tokens = lm.encode(COREFERENCE)
    chips(page).nth(7).hover()
    expect(page.locator("#pg-tokens .pg-hint")).to_have_text(
        f"id {tokens.ids[7]} · position 7 · bytes {tokens.raw[7].hex(' ')}"
    )
    chips(page).nth(7).click()
    expect(chips(page).nth(7)).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullLayout.shapes.length === 2")
    expect(page.locator("#pg-selection")).to_contain_text("token ·it (7)")
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullLayout.shapes.length === 0")


def test_click_on_a_cell_selects_its_pair(page):
    page.locator("#pg-map_plot .pg-foot").scroll_into_view_if_needed()
    box = page.evaluate(
        """() => { const gd = document.querySelector('#pg-map_plot .pg-chart');
                   const l = gd._fullLayout, r = gd.getBoundingClientRect();
                   return [r.left + l.xaxis._offset + l.xaxis.c2p(1), r.top + l.yaxis._offset + l.yaxis.c2p(7)]; }"""
    )
    page.mouse.move(box[0] - 2, box[1])
    page.mouse.move(*box)
    expect(page.locator("#pg-map_plot .hoverlayer")).to_contain_text("7 ·it")
    page.mouse.click(*box)
    expect(page.locator(".pg-chip[aria-pressed=true]")).to_have_text(["·cat", "·it"])


def test_keyboard_walks_and_opens_heads(page):
    page.get_by_role("button", name="Head 0.0", exact=True).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Head 1.2", exact=True)).to_be_focused()
    expect(page.locator(".pg-readout")).to_contain_text("Head 1.2")
    page.keyboard.press("Enter")
    shows(page, 1, 2)
    page.keyboard.press("/")
    expect(page.locator("#prompt textarea")).to_be_focused()


def test_hostile_prompt_is_shown_as_text(page, lm):
    type_prompt(page, HOSTILE)
    expect(chips(page)).to_have_count(len(lm.encode(HOSTILE)))
    shown = "".join(chips(page).all_text_contents())
    assert "<" in shown and "{{" in shown and "alert" in shown and "\u202e" not in shown
    page.wait_for_function("() => document.querySelectorAll('.pg-chart .xtick').length > 5")
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("#pg-map_plot .pg-chart .xtick tspan[style*=bold]").count() == 0
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".pg-table tbody tr").first).to_be_visible()


def test_bad_prompts_get_a_message_and_keep_the_pictures(page):
    notice = page.locator("#pg-notice")
    type_prompt(page, "")
    expect(notice).to_contain_text("The prompt is empty.")
    expect(notice).to_contain_text("Type a few words")
    type_prompt(page, "word " * 2000)
    expect(notice).to_contain_text("too long")
    expect(notice).to_contain_text("Its context is 512 tokens")
    page.evaluate(
        """() => { const box = document.querySelector('#prompt textarea');
                   box.value = 'a'.repeat(1_000_000); box.dispatchEvent(new Event('input', {bubbles: true})); }"""
    )
    expect(notice).to_contain_text("1000000 characters", timeout=SOON)
    expect(chips(page)).to_have_count(10)
    type_prompt(page, "and back")
    expect(chips(page)).to_have_count(2)
    expect(notice).to_be_hidden()  # and takes no room


def test_unknown_model_gets_a_message_and_a_way_back(page, lm):
    box = page.locator("#model input")
    unknown, no_repo = "No model has this name.", "A model of the Hub has the form OWNER/NAME."
    for name, told in (
        ("no-such-model", f"{unknown} (no-such-model)"),
        ("../../etc/passwd", f"{unknown} (../../etc/passwd)"),
        ("hub:../../x", f"{no_repo} (../../x)"),
        ("/etc", f"{unknown} (/etc)"),
    ):
        box.fill(name)
        box.press("Enter")
        expect(page.locator("#pg-notice [data-part]")).to_have_attribute("role", "alert")
        expect(page.locator("#pg-notice")).to_contain_text(told)
        expect(box).to_have_value(lm.label)  # the model in use, offered again
    expect(chips(page)).to_have_count(10)
    page.get_by_role("button", name="Head 5.5", exact=True).click()
    shows(page, 5, 5)


def test_long_prompt_pools_and_resolves_on_zoom(page, lm):
    prompt = " ".join(f"the cat number {i} sat on the mat." for i in range(44))
    T = len(lm.encode(prompt))
    assert 256 < T < 512
    type_prompt(page, prompt)
    expect(chips(page)).to_have_count(T)
    expect(page.locator("#pg-map_plot")).to_contain_text("largest of 2 × 2 weights")
    shows(page, 5, 0)
    page.evaluate(
        "() => Plotly.relayout(document.querySelector('#pg-map_plot .pg-chart'),"
        "{'xaxis.range[0]': 0, 'xaxis.range[1]': 20, 'yaxis.range[0]': 20, 'yaxis.range[1]': 0})"
    )
    expect(page.locator("#pg-map_plot")).to_contain_text("Zoomed to rows 0 to 41")
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z.length === 42")
    drawn = cells(page)
    assert drawn[41] == pytest.approx(lm.trace(prompt).pattern(5, 0)[41, :42].tolist(), abs=ROUNDING)
    page.get_by_role("button", name="See all").click()
    expect(page.locator("#pg-map_plot")).not_to_contain_text("Zoomed")


def test_numbers_and_pictures_can_be_saved(page, lm):
    plot = page.locator("#pg-map_plot")
    rows = exported_rows(plot)
    pattern = lm.trace(COREFERENCE).pattern(5, 0)
    assert rows[0] == ["query token", "key token", "attention weight"]
    assert len(rows) == 1 + 55
    assert rows[-1][:2] == ["9 ·tired", "9 ·tired"]
    assert float(rows[-1][2]) == pytest.approx(float(pattern[9, 9]), abs=ROUNDING)
    for name, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        assert export(plot, name).read_bytes()[:4] == start


@pytest.mark.long
def test_two_visitors_do_not_share_what_they_see(page, open_page, lm):
    one, two = page, open_page(ready=READY)
    type_prompt(one, "first visitor")
    type_prompt(two, "the second one writes this")
    expect(chips(two)).to_have_count(6)
    expect(chips(one)).to_have_count(3)
    one.get_by_role("button", name="Head 1.2", exact=True).click()
    shows(one, 1, 2)
    shows(two, *default_head(lm.trace(COREFERENCE)))  # of the page's first prompt


@pytest.mark.parametrize("query,locale", [pytest.param("?lang=zh", "en-US", marks=pytest.mark.long), ("", "zh-CN")])
def test_chinese_page(open_page, query, locale):
    page = open_page(query, ready=READY, locale=locale)
    expect(page.get_by_role("heading", level=1)).to_have_text("注意力实验场")
    expect(page.locator("#pg-map_plot")).to_contain_text("键词元")
    expect(page.get_by_role("navigation").get_by_role("button", name="注意力", exact=True)).to_be_visible()
    expect(page.get_by_label("提示词", exact=True)).to_be_visible()
    page.get_by_role("link", name="English").click()
    expect(page.locator("h1.pg-title")).to_have_text("Attention playground")  # the first frame has one, too


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_and_pictures_are_kept(open_page, scheme, tmp_path):
    page = open_page(ready=READY, viewport={"width": 390, "height": 900}, color_scheme=scheme)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "(w) => document.querySelector('#pg-map_plot .pg-chart')._fullLayout.width > (w > 480 ? 480 : 0)", arg=width
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width
        color = page.evaluate("document.querySelector('#pg-map_plot .pg-chart')._fullLayout.coloraxis.colorscale[0][1]")
        assert color == ("rgb(255,255,217)" if scheme == "light" else "rgb(8,29,88)"), width
        shot = page.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)
        assert len(shot) > 20_000, width


# Ends once no frame was asked for within half a second.
REST = """async () => {
  for (let turn = 0; turn < 60; turn++) {
    const before = window.framesAskedFor;
    await new Promise((next) => setTimeout(next, 500));
    if (before === window.framesAskedFor) return;
  }
  throw new Error("frames are asked for without end");
}"""
COUNT = """window.framesAskedFor = 0;
const frame = window.requestAnimationFrame;
window.requestAnimationFrame = (draw) => { window.framesAskedFor++; return frame(draw); };"""


def test_a_page_that_nobody_touches_draws_nothing(open_page):
    page = open_page()
    page.add_init_script(COUNT)
    open_page.reload(page)
    page.locator(FIRST).wait_for()
    page.evaluate(REST)
    asked = page.evaluate("window.framesAskedFor")
    assert asked > 0  # the count counts
    open_tab(page, "Attention")
    page.locator(READY).wait_for()
    page.evaluate(REST)
    assert page.evaluate("window.framesAskedFor") > asked
