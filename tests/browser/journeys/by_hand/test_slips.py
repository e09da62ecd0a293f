"""A wrong result gets the name of its slip, a right one is called right, and unreadable input is named."""

import pytest

from tests.support.visitor import SOON, expect, open_view

pytestmark = pytest.mark.browser


def open_slips(page, tab="By hand"):
    """Open the view; return its part."""
    open_view(page, tab, "hand_slips")
    return page.locator("#pg-hand_slips_desk")


def test_a_slip_is_named(open_page):
    page = open_page()
    desk = open_slips(page)
    slip, told, steps = desk.locator(".pg-slip"), desk.locator(".pg-slip-told"), desk.locator(".pg-slip-steps")
    # On arrival: an example with its slip, and the right way below it.
    expect(slip).to_contain_text("The temperature multiplies the logits", timeout=SOON)
    expect(steps.locator("li").last).to_contain_text("0.42866")
    expect(steps).to_be_in_viewport()
    # A published LayerNorm of 1, 2, 3, 4 is min–max scaling.
    desk.locator("[data-name=calculation]").select_option("layer_norm")
    expect(slip).to_contain_text("min–max", timeout=SOON)
    result = desk.locator("[data-name=result]")
    result.fill("-1.16, -0.39, 0.39, 1.16")
    expect(slip).to_contain_text("Divided by n − 1, as for a sample", timeout=SOON)
    expect(slip.locator(".pg-slip-fine output")).to_contain_text("−1.3416")
    expect(slip).to_be_visible()
    expect(result).to_be_focused()
    result.fill("7.5")
    expect(told).to_contain_text("None of 10 usual slips", timeout=SOON)
    expect(steps).to_contain_text("−1.3416")
    result.fill("-1.342")
    expect(told).to_contain_text("Your result is right", timeout=SOON)
    # Input that is no number is named; what was typed stays.
    numbers = desk.locator("[data-input=x]")
    numbers.fill("one")
    expect(told).to_contain_text("cannot be read", timeout=SOON)
    expect(told).to_contain_text("one")
    expect(told).to_be_visible()
    expect(numbers).to_have_value("one")
    desk.get_by_role("button", name="Back to the example").click()
    expect(slip).to_contain_text("min–max", timeout=SOON)
    expect(numbers).to_have_value("1, 2, 3, 4")


def test_on_a_phone_in_chinese(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    desk = open_slips(page, "手算")
    expect(desk.locator(".pg-slip")).to_contain_text("温度乘到了 logits 上", timeout=SOON)
    desk.locator("[data-name=calculation]").select_option("flops")
    desk.locator("[data-name=result]").fill("16.8M")
    expect(desk.locator(".pg-slip")).to_contain_text("漏了因子 2", timeout=SOON)
    expect(desk.locator(".pg-slip")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
