"""Rounding one matrix, and the price of conversations, as a visitor uses them."""

import json

import pytest

from model.anatomy.prices import bundled, cost, read_prices, talk
from tests.support.visitor import SOON, expect, exported_rows, open_tab
from viz.numbers import money

pytestmark = pytest.mark.browser


def test_one_matrix_is_rounded_in_four_ways(open_page):
    page = open_page()
    open_tab(page, "Quantization")
    page.locator("#pg-quantization_view button[data-key=rounding]").click()
    table, job = page.locator("#pg-rounding_table"), page.locator("#pg-rounding_job [data-part]")
    page.locator("#pg-rounding_form [data-name=tokens] select").select_option("128")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(4, timeout=SOON)
    for part in ("errors", "power", "columns"):
        page.locator(f"#pg-rounding_{part} .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-rounding_errors")).to_contain_text("blocks.4.attn.v.weight")
    expect(job).to_have_attribute("data-state", "done")  # nobody pressed the button: it is quick on this model
    for bits in ("2", "3"):
        run = table.locator("[data-run]").get_attribute("data-run")
        page.locator("#pg-rounding_form [data-name=bits] select").select_option(bits)
        expect(table.locator(f"[data-run]:not([data-run={json.dumps(run)}])")).to_have_count(1, timeout=SOON)
        expect(rows).to_have_count(4)
    names, *lines = exported_rows(table)
    assert len(names) == 7 and [line[0] for line in lines] == ["nearest", "scaled", "compensated", "both"]


def test_a_conversation_is_priced_by_ones_own_table_on_a_phone(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_tab(page, "结构")
    page.locator("#pg-anatomy_view button[data-key=prices]").click()
    table = page.locator("#pg-prices_table")
    cheapest = min(read_prices(bundled()), key=lambda price: cost(price, talk(10, 300, 10)).total)
    expect(table.locator("tbody tr").first).to_contain_text(cheapest.model, timeout=SOON)
    expect(table.locator("tbody tr").first).to_contain_text(money(cost(cheapest, talk(10, 300, 10)).total, "USD"))
    page.locator("#pg-prices_form [data-name=turns] input").fill("1")
    expect(table.locator("tbody tr").first).to_contain_text(money(cost(cheapest, talk(10, 300, 1)).total, "USD"))
    page.locator("#pg-prices_form [data-name=table] select").select_option("own")
    line = "<b>M</b>,310,2,10,EUR,2024-01-31,me"
    page.locator("#pg-prices_form textarea").fill(f"model,context,input,output,currency,as_of,source\n{line}")
    expect(table.locator("tbody tr")).to_have_count(1, timeout=SOON)
    expect(table).to_contain_text("<b>M</b>")
    expect(table).to_contain_text(money(310e-6 * 10 - 10e-6 * 8, "EUR"))
    page.locator("#pg-prices_form textarea").fill("model")
    expect(table).to_contain_text("价目表缺少一列", timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
