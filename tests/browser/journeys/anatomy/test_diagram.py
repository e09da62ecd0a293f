"""The drawing of a model and the map of its parameters as a visitor uses them."""

from pathlib import Path

import pytest

from model.activations.site_statistics import block_numbers, vector
from model.anatomy.blueprint import blueprint
from tests.support.visitor import SOON, expect, exported_rows, open_tab
from viz.numbers import number

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
PASTED = (Path(__file__).parents[3] / "data" / "configs" / "pythia-70m.json").read_text()


def test_a_part_tells_its_numbers(open_page, lm):
    page = open_page()
    open_tab(page, "Anatomy")
    figure, facts, live = (page.locator(f"#pg-diagram_{name}") for name in ("figure", "facts", "live"))
    figure.locator("[data-run]").wait_for(timeout=SOON)
    parts = list(blueprint(lm.config, 10))
    assert figure.locator("[data-step]").evaluate_all("boxes => boxes.map((box) => box.dataset.step)") == parts
    # With the keys: from q to k, and on to the sum, which is told by its name.
    figure.locator("[data-step=q]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(facts.locator("h2")).to_have_text("Key", timeout=SOON)
    expect(figure.get_by_role("button", name="Add attention")).to_have_count(1)
    # The lines that compute it, with the shape of this run.
    code = page.locator("#pg-diagram_code")
    code.get_by_text("Code", exact=True).click()
    expect(code.get_by_text("model/gpt/mixers/projection.py: project")).to_be_visible()
    expect(code.locator("em").first).to_have_text("[1, 8, 10, 32]")
    # Another layer, head and token: the numbers are theirs.
    layer = int(figure.locator(".pg-dia-step b").first.text_content())
    figure.get_by_role("button", name="Layer: previous").click()
    figure.get_by_role("button", name="Head: next").click()
    page.locator("#pg-tokens button").nth(4).click()
    expect(live).to_contain_text(f"Layer {layer - 1}, token “·the” (4). Head 2", timeout=SOON)
    one = vector(block_numbers(lm.trace(PROMPT), layer - 1).sizes["k"], 4, 2)
    expect(live.locator("tbody tr").last).to_contain_text(number(one.rms))
    # The part is in the link, and a reload shows it.
    page.wait_for_function("() => location.hash.includes('diagram_figure')", timeout=SOON)
    page.reload()
    expect(facts.locator("h2")).to_have_text("Key", timeout=SOON)
    expect(figure.locator("[data-step=k]")).to_have_attribute("aria-pressed", "true")
    # A pasted config, then one that is none: said where the drawing was.
    form = page.locator("#pg-anatomy_form")
    form.locator("select").select_option("pasted")
    form.locator("textarea").fill(PASTED)
    expect(figure.locator("h2")).to_contain_text("A pasted config.json", timeout=SOON)
    assert (
        figure.locator("[data-step=norm2]").bounding_box()["y"]
        == figure.locator("[data-step=norm1]").bounding_box()["y"]
    )
    form.locator("textarea").fill("{ not json")
    expect(figure.locator(".pg-problem")).to_contain_text("This is not a config.json.", timeout=SOON)


def test_parameters_on_a_narrow_dark_chinese_page(open_page, lm):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_tab(page, "结构")
    figure = page.locator("#pg-diagram_figure")
    figure.locator("[data-run]").wait_for(timeout=SOON)
    figure.locator("[data-step=down]").click()
    expect(figure.locator(".pg-dia-now")).to_contain_text("y = W_down m + b")
    boxes = figure.locator("[data-step]").evaluate_all(
        "boxes => boxes.map((box) => [box.getBoundingClientRect().left, box.getBoundingClientRect().right])"
    )
    assert all(0 <= left < right <= 390 for left, right in boxes)
    page.get_by_role("tab", name="参数", exact=True).click()
    page.locator("#pg-parameters_tree .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-parameters_table .pg-lab-same")).to_contain_text(f"{lm.n_params:,}")
    # The leaves of the map add up to all of it, also in a file.
    sizes = [int(float(row[-1])) for row in exported_rows(page.locator("#pg-parameters_tree"))[1:]]
    assert sum(sizes) == lm.n_params and len(sizes) == len(list(lm.model.parameters()))
    page.locator("#pg-anatomy_form select").select_option("gpt2")
    expect(page.locator("#pg-parameters_table")).to_contain_text("124,439,808", timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
