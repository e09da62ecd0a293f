"""The state of a Mamba layer with a model that has none: the bundled one is shown on the same prompt, and opened."""

import pytest

from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_the_state_is_shown_at_once_and_its_model_opened(open_page):
    page = open_page("", ready=FIRST)
    open_tab(page, "Efficiency")
    page.locator("#pg-cheaper_view .pg-view[data-key=state]").click()
    figure = page.locator("#pg-state_share .js-plotly-plot")
    expect(figure).to_be_visible(timeout=SOON)
    assert figure.bounding_box()["y"] < 450
    example = page.locator("#pg-state_example [data-part]")
    expect(example).to_contain_text("TinyGPT has no Mamba layer: the figures show TinyMamba")
    expect(page.locator("#pg-screen-cheaper .pg-problem:visible")).to_have_count(0)
    page.locator("#pg-tokens .pg-chip", has_text="mat").click()  # two tokens of TinyMamba: " m", "at"
    expect(page.locator("#pg-state_share h2")).to_contain_text("·m”", timeout=SOON)
    example.get_by_role("button", name="Open TinyMamba").click()
    expect(page.locator("#pg-header")).to_contain_text("TinyMamba", timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_value("The cat sat on the mat because it was tired")
    expect(example).to_be_hidden(timeout=SOON)
    expect(figure).to_be_visible()
