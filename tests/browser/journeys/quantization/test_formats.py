"""The views of number formats and of the layer sweep as a visitor uses them."""

import re

import pytest

from model.quantization.experiments import total_bytes
from model.quantization.formats import FORMATS, USUAL
from tests.support.visitor import SOON, expect, open_tab
from viz.numbers import size

pytestmark = pytest.mark.browser


def test_formats_are_compared_and_layers_swept_on_a_narrow_dark_chinese_page(open_page, lm):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_tab(page, "量化")
    table = page.locator("#pg-formats_table")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(USUAL), timeout=SOON)
    at = USUAL.index("int4-32")
    expect(rows.nth(at)).to_contain_text(size(total_bytes(lm.model, FORMATS["int4-32"])[0]))
    expect(page.locator("#pg-formats_job")).to_contain_text("已存结果")  # of the default page, before it is measured
    page.locator("#pg-formats_scatter .main-svg").first.wait_for(timeout=SOON)
    page.locator("#pg-formats_levels .main-svg").first.wait_for(timeout=SOON)
    # Another format and matrix are answered at once, without the button.
    page.locator("#pg-formats_form select").nth(1).select_option("Q4_0")
    page.locator("#pg-formats_form select").nth(2).select_option("q")
    expect(page.locator("#pg-formats_levels h2")).to_contain_text("q 的权重，量化前后：GGUF Q4_0", timeout=SOON)
    page.locator("#pg-formats_job button").first.click()
    expect(page.locator("#pg-formats_job")).to_contain_text("本机实测", timeout=2 * SOON)
    expect(rows.nth(at).locator("td").last).to_have_text("模拟：未测速度", timeout=2 * SOON)
    expect(rows.first.locator("td").last).to_have_text(re.compile(r"^[\d.,]+$"))
    expect(page.locator("#pg-formats_maps")).to_contain_text("GGUF Q4_0")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # The sweep.
    page.get_by_role("tab", name="逐层", exact=True).click()
    job = page.locator("#pg-layer_sweep_job [data-part]")
    expect(job).to_have_attribute("data-state", "done", timeout=SOON)  # by itself: it is quick on this model
    expect(page.locator("#pg-layer_sweep_facts")).to_contain_text("全部层一起", timeout=2 * SOON)
    page.locator("#pg-layer_sweep_heat .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-layer_sweep_heat h2")).to_contain_text("int4，每组 32 个")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
