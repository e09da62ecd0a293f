"""The orders of the steps as a visitor uses them: an order is taken into the editor, and the table follows."""

import pytest

from tests.support.visitor import SOON, expect, exported_rows, open_tab

pytestmark = pytest.mark.browser

ORDERS = "#pg-distribution_orders"


def editor(page) -> list[str]:
    return page.locator(".pg-pipe-step").evaluate_all("(all) => all.map((each) => each.dataset.warp)")


def open_orders(open_page, query="", name="Sampling", **context):
    page = open_page(query, **context)
    page.wait_for_timeout(300)  # the tabs find their places
    open_tab(page, name)
    page.locator(f"{ORDERS} [data-run]").wait_for(timeout=SOON)
    return page


def test_an_order_is_taken_into_the_editor(open_page):
    page = open_orders(open_page)
    results = page.locator(f"{ORDERS} .pg-order-results")
    expect(results).to_be_visible()
    assert editor(page) == ["temperature", "top_k", "top_p"]
    expect(results.locator(".pg-order-present")).to_have_text("Temperature → Top-k → Top-p (nucleus) this order")
    count = len(exported_rows(page.locator(ORDERS))) - 1
    assert count == 6 + 4
    tools = page.locator(f"{ORDERS} .pg-order-tools")
    tools.get_by_role("button", name="Use this order: Top-k → Top-p (nucleus) → Temperature").click()
    expect(results.locator(".pg-order-present")).to_contain_text("Top-k → Top-p (nucleus) → Temperature", timeout=SOON)
    assert editor(page) == ["top_k", "top_p", "temperature"]
    expect(page.locator("#pg-distribution_steps")).to_contain_text("1 · Top-k 40", timeout=SOON)
    # A step that a tool lacks is switched off, and stays in the editor.
    page.get_by_label("Add a step").select_option("top_a")
    row = tools.get_by_role("row").filter(has_text="vLLM")
    expect(row).to_contain_text("Top-a", timeout=SOON)
    row.get_by_role("button").click()
    expect(page.locator(".pg-pipe-step.pg-off")).to_have_count(1, timeout=SOON)
    assert editor(page) == ["temperature", "top_k", "top_p", "top_a"]


def test_one_step_has_no_table_and_a_phone_has_room(open_page):
    page = open_orders(open_page, "?lang=zh&__theme=dark", "采样", viewport={"width": 390, "height": 844})
    expect(page.locator(f"{ORDERS} h2")).to_have_text("顺序重要吗？")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for _ in range(2):
        page.locator(".pg-pipe-step [data-what=remove]").first.click()
    expect(page.locator(f"{ORDERS} h2")).to_be_hidden(timeout=SOON)
