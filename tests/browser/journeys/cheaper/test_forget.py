"""The views of cheaper attention as a visitor uses them."""

import re

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_a_visitor_sees_what_one_token_is_worth_and_what_goes_when(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    open_tab(page, "Efficiency")
    # The first picture comes by itself, and on the default model the promise of its title holds.
    text = page.locator("#pg-forget_text")
    text.locator(".main-svg").first.wait_for(timeout=2 * SOON)
    note = text.get_by_text(re.compile("Keeping the first token"))
    expect(note).to_be_visible()
    lost, back = map(float, re.search(r"recovers ([\d.]+) of the ([\d.]+) nats", note.inner_text()).groups()[::-1])
    assert 0.3 * lost < back < lost
    # One head and all of them, on the visitor's own prompt.
    maps = page.locator("#pg-forget_head")
    maps.locator(".main-svg").first.wait_for(timeout=SOON)
    expect(maps).to_contain_text("weights lost")
    expect(page.locator("#pg-forget_job [data-part]")).to_have_attribute("data-state", "done", timeout=SOON)
    page.locator("#pg-forget_loss .main-svg").first.wait_for(timeout=SOON)
    page.locator("#pg-forget_lost .main-svg").first.wait_for(timeout=SOON)
    # Another policy is read at once: a cache has a timeline, a pattern says why it has none.
    kind = page.locator("#pg-forget_form select").first
    kind.select_option("h2o")
    expect(page.locator("#pg-forget_head h2")).to_contain_text("H2O", timeout=SOON)
    page.locator("#pg-forget_timeline .main-svg").first.wait_for(timeout=SOON)
    kind.select_option("block")
    expect(page.locator("#pg-forget_timeline")).to_contain_text("a fixed pattern, not a cache", timeout=SOON)


def test_what_it_saves_and_how_much_it_must_keep_on_a_narrow_dark_chinese_page(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_tab(page, "高效注意力")
    page.get_by_role("tab", name="能省下什么？", exact=True).click()
    page.locator("#pg-savings_figure .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-savings_table tbody tr")).to_have_count(10, timeout=SOON)
    page.get_by_role("tab", name="它必须留下多少？", exact=True).click()
    page.locator("#pg-budget_job button").first.click()
    page.locator("#pg-budget_figure .main-svg").first.wait_for(timeout=4 * SOON)
    expect(page.locator("#pg-budget_figure")).to_contain_text("完整注意力")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_memories_write_side_by_side(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Side by side", exact=True).click()
    page.get_by_role("button", name="Compare KV caches", exact=True).click()
    lines = page.locator("#pg-strategies .pg-strat")
    expect(lines).to_have_count(4)
    expect(lines.nth(1)).to_contain_text("last 32 keys")
    expect(lines.nth(3)).to_contain_text("H2O 32 keys")
    ground = "(line) => getComputedStyle(line).backgroundColor"
    plain = lines.nth(3).evaluate(ground)
    lines.nth(3).locator(".pg-strat-open").click()
    assert lines.nth(3).evaluate(ground) != plain == lines.nth(2).evaluate(ground)  # the one that is edited
    editor = page.locator("#pg-strat-editor")
    expect(editor.get_by_label("KV-cache policy")).to_have_value("h2o")
    editor.get_by_label("Cache size (keys)").fill("4")
    expect(lines.nth(3)).to_contain_text("H2O 4 keys")
