"""A prompt set as a visitor sees it: few pairs measured, one cell with its examples, and a set the model cannot do."""

import numpy as np
import pytest

from model.sets.aligned import prompt_set
from model.sets.effects import set_effects
from tests.support.visitor import SOON, expect, open_tab, still

pytestmark = pytest.mark.browser

CHART = "[data-part=prompt_set_{}] .js-plotly-plot"
MAP = """() => document.querySelector("[data-part=prompt_set_map] .js-plotly-plot")
  ._fullData[0].z.map((row) => [...row])"""
POINTS = """() => [...document.querySelector("[data-part=prompt_set_cell] .js-plotly-plot")._fullData[0].x]"""


def test_a_measured_set_shows_every_pair_of_the_picked_head(open_page, lm):
    page = open_page()
    open_tab(page, "Effects")
    page.get_by_role("tab", name="Prompt set").click()
    form = page.locator("[data-part=prompt_set_form]")
    form.locator("[data-name=set] select").select_option(label="number agreement")
    form.locator("[data-name=n] input").fill("4")
    form.locator("[data-name=n] input").press("Enter")
    button = page.locator("[data-part=prompt_set_job] button")
    expect(page.locator("[data-part=prompt_set_job]")).to_contain_text("4 pairs", timeout=SOON)
    button.click()
    title = page.locator("[data-part=prompt_set_cell] h2")
    expect(title).to_contain_text("each of 4 pairs", timeout=60_000)
    still(page, CHART.format("map"))
    pairs = prompt_set(lm, "agreement", 4)
    effects = -set_effects(lm, pairs.pairs, "zero").values
    assert np.allclose(page.evaluate(MAP), effects.mean(0), atol=1e-4)
    layer, head = np.unravel_index(np.abs(effects.mean(0)).argmax(), effects.shape[1:])
    expect(title).to_contain_text(f"Head {layer}.{head}")
    still(page, CHART.format("cell"))
    assert np.allclose(page.evaluate(POINTS), effects[:, layer, head], atol=1e-4)
    cell = page.locator(f"{CHART.format('map')} .nsewdrag").bounding_box()
    page.mouse.click(cell["x"] + cell["width"] * 2.5 / 8, cell["y"] + cell["height"] * 3.5 / 8)
    expect(title).to_contain_text("Head 3.2", timeout=SOON)
    still(page, CHART.format("cell"))
    assert np.allclose(page.evaluate(POINTS), effects[:, 3, 2], atol=1e-4)
