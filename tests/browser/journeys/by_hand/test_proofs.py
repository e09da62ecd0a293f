"""A pasted page is checked and its marks are reached from the list; a wrong result gets the name of its slip."""

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser
PAGE = "# A page\n" + "Some words.\n" * 60 + "<b>12 × 64 = 769</b>\n151,936 × 4,096 = 622M\nGPT-2 has 12 layers.\n"


def test_a_page_is_checked_and_a_slip_is_named(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_tab(page, "By hand")
    page.locator("[data-part=by_hand_view] [data-key=hand_tutorial]").click()
    part = page.locator("#pg-hand_tutorial_page")
    text, why = part.locator(".pg-claim-text"), part.locator(".pg-claim-why")
    # On arrival: an example with each verdict, and the line that says why.
    expect(part.locator(".pg-claim-counts")).to_contain_text("3 right", timeout=SOON)
    expect(text.locator(".pg-claim-wrong")).to_have_text("78.23")
    expect(why).to_contain_text("78.23 is wrong; it is 76.973")
    expect(text.locator(".pg-claim-loose")).to_be_visible()
    # A page of one's own: its tags stay text, its wrong number is reached from the list.
    part.locator("textarea").fill(PAGE)
    part.locator("[data-act=check]").click()
    expect(part.locator(".pg-claim-counts")).to_contain_text("1 right", timeout=SOON)
    expect(text).to_contain_text("<b>12 × 64 = 769</b>")
    expect(text.locator("b")).to_have_count(0)
    place = part.locator(".pg-claim-place").first
    expect(place).to_contain_text("769 → 768")
    text.evaluate("box => { box.scrollTop = 0; }")
    place.click()
    mark = text.locator(".pg-claim-wrong")
    expect(mark).to_be_focused()
    expect(mark).to_be_in_viewport()
    expect(mark).to_have_attribute("aria-pressed", "true")
    text.locator(".pg-claim-right").click()
    expect(why).to_contain_text("151,936 × 4,096 = 622,329,856")
    assert "hand_tutorial_page" not in page.evaluate("JSON.stringify(playground.state().values)")
    part.locator("[data-act=example]").click()
    expect(text.locator(".pg-claim-wrong")).to_have_text("78.23", timeout=SOON)
    # A result and its slip.
    page.locator("[data-part=by_hand_view] [data-key=hand_slips]").click()
    desk = page.locator("#pg-hand_slips_desk")
    expect(desk.locator(".pg-slip")).to_contain_text("The temperature multiplies the logits", timeout=SOON)
    desk.locator("[data-name=calculation]").select_option("layer_norm")
    expect(desk.locator(".pg-slip")).to_contain_text("min–max", timeout=SOON)
    result = desk.locator("[data-name=result]")
    result.fill("-1.16, -0.39, 0.39, 1.16")
    expect(desk.locator(".pg-slip")).to_contain_text("n − 1", timeout=SOON)
    expect(desk.locator(".pg-slip-fine")).to_contain_text("−1.3416")
    expect(result).to_be_focused()
    result.fill("7.5")
    expect(desk.locator(".pg-slip-told")).to_contain_text("None of 10 usual slips", timeout=SOON)
    expect(desk.locator(".pg-slip-steps")).to_contain_text("−1.3416")
    result.fill("-1.342")
    expect(desk.locator(".pg-slip-told")).to_contain_text("Your result is right", timeout=SOON)
    desk.locator("[data-input=x]").fill("one")
    expect(desk.locator(".pg-slip-told")).to_contain_text("cannot be read", timeout=SOON)
    assert not errors
