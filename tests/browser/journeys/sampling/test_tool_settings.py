"""Settings of another tool as a visitor takes them over: pasted, read with notes, copied for another tool, compared."""

import json

import pytest

from tests.support.visitor import SOON, expect, open_tab
from viz.words import words

pytestmark = pytest.mark.browser

WORDS = words("en")
COMMAND = "llama-cli -m model.gguf --temp 1.4 --top-k 0 --top-p 1 --min-p 0.1 --frobnicate 3"
HOSTILE = "<img src=x onerror=alert(1)>: 3\nPARAMETER temperature nan"


def open_fold(open_page, query="", tab="Sampling", fold=WORDS["tool_settings.fold"], **context):
    page = open_page(query, **context)
    page.wait_for_timeout(300)  # the tabs find their places
    open_tab(page, tab)
    page.locator("#pg-distribution_bars [data-run]").wait_for(timeout=SOON)
    page.locator(".pg-pipe-other summary").click()
    expect(page.locator(".pg-pipe-other summary")).to_have_text(fold)
    return page


def warps(page):
    return [line.get_attribute("data-warp") for line in page.locator(".pg-pipe-step").all()]


def test_a_command_line_becomes_steps_and_another_tools_settings(open_page):
    page = open_fold(open_page)
    fold = page.locator(".pg-pipe-other")
    fold.get_by_label("Your settings").fill(COMMAND)
    fold.get_by_role("button", name="Use these settings").click()
    expect(fold).to_contain_text("Read as llama.cpp: 2 steps.", timeout=SOON)
    assert warps(page) == ["min_p", "temperature"]
    expect(fold).to_contain_text("Not used: -m, --frobnicate")
    expect(fold.get_by_label("Your settings")).to_have_value(COMMAND)  # what was pasted stays
    # The steps as settings of another tool, with what it cannot say.
    fold.get_by_label("Copy the steps as").select_option("ollama")
    box = fold.get_by_label("The steps for Ollama")
    expect(box).to_be_visible(timeout=SOON)
    assert "PARAMETER temperature 1.4" in box.input_value()
    fold.get_by_label("Copy the steps as").select_option("vllm")
    box = fold.get_by_label("The steps for vLLM")
    expect(box).to_be_visible(timeout=SOON)
    assert json.loads(box.input_value())["min_p"] == 0.1
    expect(fold).to_contain_text("vLLM runs them in its own order: temperature, min_p.")
    # A changed step: what was written is no longer there.
    page.get_by_role("button", name="Remove Min-p").click()
    expect(box).to_be_hidden()


def test_what_a_setting_does_is_shown_beside_greedy(open_page):
    page = open_fold(open_page)
    fold = page.locator(".pg-pipe-other")
    fold.get_by_label("Your settings").fill(COMMAND)
    fold.get_by_role("button", name="Use these settings").click()
    expect(fold).to_contain_text("Read as llama.cpp", timeout=SOON)
    page.locator(".pg-pipe-compare:visible").click()
    rows = page.locator(".pg-race-rows > *")
    expect(page.locator("[data-part=side_by_side_texts][data-over]")).to_be_visible(timeout=SOON)
    expect(rows).to_have_count(2, timeout=SOON)
    expect(rows.nth(0)).to_contain_text("Greedy")
    expect(rows.nth(1)).to_contain_text("My setting")
    expect(rows.nth(1)).to_contain_text("Diverges from Greedy at token", timeout=SOON)
    expect(page.locator(".pg-strat")).to_have_count(2)


def test_a_hostile_paste_on_a_phone_in_chinese_stays_text(open_page):
    fold_name = words("zh")["tool_settings.fold"]
    page = open_fold(open_page, "?lang=zh&__theme=dark", "采样", fold_name, viewport={"width": 390, "height": 844})
    fold, before = page.locator(".pg-pipe-other"), warps(page)
    fold.locator("textarea").first.fill(HOSTILE)
    fold.get_by_role("button", name="采用这些设置").click()
    expect(fold.locator("[role=alert]")).to_contain_text("不是数", timeout=SOON)
    assert warps(page) == before and page.locator(".pg-pipe-other img").count() == 0
    fold.locator("textarea").first.fill('{"do_sample": true, "<img src=x onerror=alert(1)>": 1}')
    fold.get_by_role("button", name="采用这些设置").click()
    expect(fold).to_contain_text("未使用：<img src=x onerror=alert(1)>", timeout=SOON)
    assert page.locator(".pg-pipe-other img").count() == 0
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
