"""The start as a visitor meets it: what comes next, at any temperature, written token by token, and the way to it."""

import re

import numpy as np
import pytest

from model.predictions.attribution import attribute, components
from model.predictions.next_token import next_token
from model.sampling.pipeline import uniform
from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect, exported_rows, open_tab, settle
from viz.views.start.start.measure import TEMPERATURES

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
NEXT = "#pg-start_next"


def shown(page):
    """The bars: token and percentage, or what it is less than."""
    return page.locator(f"{NEXT} .pg-start-bar").evaluate_all(
        """all => all.map((bar) =>
            [bar.querySelector("code").textContent, parseFloat(bar.querySelector("b").textContent.replace("<", ""))])"""
    )


def drawn_for(page, prompt):
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    page.wait_for_function(
        "prompt => playground.page.shown.prompt === prompt && "
        "document.querySelector('[data-part=start_next]').dataset.run.split(' ')[0] === "
        "document.querySelector('[data-part=start_way]').dataset.run.split(' ')[0]",
        arg=prompt,
        timeout=SOON,
    )


def at_temperature(page, T):
    page.get_by_role("slider", name="Temperature").fill(str(TEMPERATURES.index(T)))


def test_bars_follow_the_temperature_and_tokens_are_written(open_page, lm):
    page = open_page("", ready=FIRST)
    found = next_token(lm.trace(PROMPT).logits_at(-1), TEMPERATURES, uniform(0, 9))
    for T in (1.0, 0.5, 2.0):
        at_temperature(page, T)
        shares = 100 * np.exp(found.logits / T - found.log_sums[TEMPERATURES.index(T)])
        assert [number for _, number in shown(page)] == pytest.approx(shares.tolist(), abs=0.051)
    # A link holds the temperature: the page that it opens shows the same bars.
    settle(page)
    page.wait_for_function("() => location.hash.includes('2')", timeout=SOON)  # nothing else is on its way
    at_temperature(page, 1.9)
    hot = shown(page)
    page.wait_for_function("() => location.hash.includes('1.9')", timeout=SOON)
    other = open_page(page.url.split("/", 3)[3], ready=FIRST)
    expect(other.get_by_role("slider", name="Temperature")).to_have_value(str(TEMPERATURES.index(1.9)))
    assert shown(other) == hot
    page.bring_to_front()
    at_temperature(page, 0.0)
    assert [number for _, number in shown(page)] == [100] + [0] * 9
    # One more token, three times: each is the likeliest, and all three are marked as written.
    text = PROMPT
    for _ in range(3):
        text += lm.decode([int(lm.trace(text).logits_at(-1).argmax())])
        page.locator(f"{NEXT} .pg-start-write").click()
        drawn_for(page, text)
    n = len(lm.encode(text))
    expect(page.locator("#pg-tokens .pg-chip")).to_have_count(n)
    expect(page.locator("#pg-tokens .pg-chip-written")).to_have_count(3)
    # A click on a bar writes that token.
    second = int(next_token(lm.trace(text).logits_at(-1), (1.0,), 0.5).ids[1])
    page.locator(f"{NEXT} .pg-start-bar").nth(1).click()
    drawn_for(page, text + lm.decode([second]))
    expect(page.locator("#pg-tokens .pg-chip-written")).to_have_count(4)
    # Token after token, until it is stopped.
    keep = page.locator(f"{NEXT} .pg-start-keep")
    keep.click()
    page.wait_for_function("() => document.querySelectorAll('#pg-tokens .pg-chip-written').length > 6", timeout=SOON)
    keep.click()
    expect(keep).to_have_text("Keep writing")
    page.wait_for_timeout(800)
    stopped = page.locator("#prompt textarea").input_value()
    page.wait_for_timeout(800)
    assert page.locator("#prompt textarea").input_value() == stopped and stopped.startswith(text)


def test_the_way_shows_what_each_part_adds_and_leads_to_its_view(open_page, lm):
    page = open_page("", ready=FIRST)
    run = lm.trace(PROMPT)
    parts = attribute(components(run, 9), lm.model, int(run.logits_at(9).argmax()))
    cells = page.locator("#pg-start_way .pg-way-head")
    expect(cells).to_have_count(64)
    rows = exported_rows(page.locator("#pg-start_way"))[1:]
    values = [float(value) for _, value in rows]
    whole = np.concatenate([parts.heads, parts.mlps[:, None]], axis=1).ravel()
    assert values == pytest.approx(whole.tolist(), abs=1e-4)
    # A head is looked into: what it reads are the weights of its row.
    cells.nth(8 * 7).click()
    expect(page.locator("#pg-selection")).to_contain_text("head 7.0")
    reads = page.locator("#pg-start_way .pg-way-tokens")
    expect(reads).to_contain_text("Head 7.0")
    weights = run.pattern(7, 0)[9]
    shown_weights = reads.locator(".pg-way-share").all_inner_texts()
    strongest = int(weights.argmax())
    assert float(shown_weights[strongest].rstrip("%")) == pytest.approx(100 * weights[strongest], rel=0.01)
    # Another token is followed, and what would come after it is shown.
    reads.locator(".pg-way-token").nth(4).click()
    expect(page.locator(NEXT)).to_contain_text("after “·the” at position 4")
    expect(page.locator(f"{NEXT} .pg-start-write")).to_contain_text("Write here")
    # A heading leads to its view.
    page.get_by_role("button", name="top token after the layer").click()
    expect(page.locator("#pg-lens_table")).to_be_visible(timeout=SOON)
    open_tab(page, "Start")
    page.get_by_role("button", name="Open its map").click()
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(r" 7\.0$"), timeout=SOON)
