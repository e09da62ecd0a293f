"""A pasted page is checked: its wrong numbers are named with their reason and reached from the list."""

import pytest

from tests.support.visitor import SOON, expect, open_view

pytestmark = pytest.mark.browser
# The fourth line is from a published page, whose softmax row belongs to no temperature; the rest is made up.
PAGE = """# A page
<b>12 × 64 = 769</b>
151,936 × 4,096 = 622M
scaled_logits = [0.5, 1.0, 1.5, 2.0, 2.5]
probs = softmax(scaled_logits) = [0.105, 0.141, 0.191, 0.258, 0.349]
GPT-2 has 12 layers.
"""


def open_tutorial(page, tab="By hand"):
    """Open the view; return its part."""
    open_view(page, tab, "hand_tutorial")
    return page.locator("#pg-hand_tutorial_page")


def test_a_page_is_checked(open_page):
    page = open_page()
    part = open_tutorial(page)
    text, why, counts = part.locator(".pg-proof-text"), part.locator(".pg-proof-why"), part.locator(".pg-proof-counts")
    # On arrival: an example with each verdict, and the line that says why.
    expect(counts).to_contain_text("3 right", timeout=SOON)
    expect(text.locator(".pg-proof-wrong")).to_have_text("78.23")
    expect(why).to_contain_text("78.23 is wrong; it is 76.973")
    expect(why).to_be_in_viewport()
    expect(text.locator(".pg-proof-loose")).to_have_text("4.71M")
    expect(part.locator("[data-act=example]")).to_be_hidden()
    # A page of one's own: its tags stay text, and each wrong number has its right one beside it.
    area, check = part.locator("textarea"), part.locator("[data-act=check]")
    area.fill(PAGE)
    check.click()
    expect(counts).to_contain_text("1 right", timeout=SOON)
    expect(counts).to_contain_text("6 wrong")
    expect(text).to_contain_text("<b>12 × 64 = 769</b>")
    expect(text.locator("b")).to_have_count(0)
    place = part.locator(".pg-proof-place")
    expect(place.nth(0)).to_contain_text("769 → 768")
    expect(place.nth(1)).to_contain_text("0.105 → 0.058012")  # softmax([1, 2, 3, 4, 5] / 2)
    place.nth(5).click()
    mark = text.locator(".pg-proof-wrong").nth(5)
    expect(mark).to_have_text("0.349")
    expect(mark).to_be_focused()
    expect(mark).to_be_in_viewport()
    expect(mark).to_have_attribute("aria-pressed", "true")
    expect(why).to_contain_text("0.349 is wrong; it is 0.42866")
    text.locator(".pg-proof-right").click()
    expect(why).to_contain_text("151,936 × 4,096 = 622,329,856")
    assert "hand_tutorial_page" not in page.evaluate("JSON.stringify(playground.state().values)")  # nor in the address
    # A page without a number that can be recomputed says what would be.
    area.fill("GPT-2 has 12 layers. Weights are in [0, 1].")
    check.click()
    expect(why).to_contain_text("No number of this page could be tied to its inputs", timeout=SOON)
    expect(why).to_be_visible()
    expect(why).not_to_have_attribute("data-verdict", "wrong")
    part.locator("[data-act=example]").click()
    expect(text.locator(".pg-proof-wrong")).to_have_text("78.23", timeout=SOON)


def test_on_a_phone_in_chinese(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    part = open_tutorial(page, "手算")
    expect(part.locator(".pg-proof-counts")).to_contain_text("1 个错误", timeout=SOON)
    expect(part.locator(".pg-proof-why")).to_contain_text("78.23 是错的，应为 76.973")
    part.locator("textarea").fill("２ × 768 × 3072 = 472万\n3 个头里有 1 个，占 30%")
    part.locator("[data-act=check]").click()
    expect(part.locator(".pg-proof-why")).to_contain_text("30% 是错的，应为 33.333%", timeout=SOON)
    expect(part.locator(".pg-proof-why")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
