"""A prompt set as a visitor sees it: few pairs measured, one cell with its examples, and a set the model cannot do."""

import json
from pathlib import Path

import numpy as np
import pytest

from model.sets.aligned import prompt_set
from model.sets.effects import set_effects
from tests.support.visitor import SOON, expect, open_tab, still

LINES = """clean,corrupt,target,distractor
The cat was a,The dog was a,cat,dog
The cat sat in,The big dog sat in,the,a
"""
MEANS = """() => document.querySelector("[data-part=prompt_set_map] .js-plotly-plot")._fullData
  .find((trace) => trace.error_y?.visible).y.map(Number)"""
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
    expect(page.locator("[data-part=prompt_set_map]")).to_contain_text("no p can be below 0.125")


def test_a_set_is_read_by_the_lens_and_exported_and_an_own_one_says_what_is_left_out(open_page, lm):
    page = open_page()
    open_tab(page, "Effects")
    page.get_by_role("tab", name="Prompt set").click()
    form = page.locator("[data-part=prompt_set_form]")
    form.locator("[data-name=set] select").select_option(label="gender")
    form.locator("[data-name=effect] select").select_option(label="logit lens by layer")
    title = page.locator("[data-part=prompt_set_map] h2")
    expect(title).to_contain_text("Mean of 32 pairs: logit lens by layer", timeout=60_000)
    still(page, CHART.format("map"))
    pairs = prompt_set(lm, "gender", 32).pairs
    means = set_effects(lm, pairs, "lens").values.mean(0)[:, 0]
    assert np.allclose(page.evaluate(MEANS), means, atol=1e-4)
    table = page.locator("[data-part=prompt_set_strongest]")
    table.locator(".pg-export-open").click()
    with page.expect_download() as found:
        table.locator("[data-format=json]").click()
    written = json.loads(Path(found.value.path()).read_text())
    assert written["comparisons"] == len(means) and len(written["rows"]) == 32
    assert np.allclose(np.mean([row[6:] for row in written["rows"]], 0), means, atol=1e-4)
    form.locator("[data-name=set] select").select_option(label="own text")
    form.locator("[data-name=own] textarea").fill(LINES)
    listed = page.locator("[data-part=prompt_set_pairs]")
    expect(listed).to_contain_text("1 left out", timeout=SOON)
    expect(listed).to_contain_text("left out: unequal lengths (4, 5 tokens)")
