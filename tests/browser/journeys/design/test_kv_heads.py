"""Shared KV heads, the ways to attend and the scaling as a visitor uses them."""

import json
import re

import numpy as np
import pytest

from model.design.kernels import online_steps
from model.design.kv_sharing import survey
from model.design.score_scaling import products, summary
from tests.support.visitor import SOON, expect, open_tab, still

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def test_heads_are_merged_and_a_query_head_is_picked(open_page, lm):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="Shared KV heads", exact=True).click()
    table, after = page.locator("#pg-kv_heads_table"), page.locator("#pg-kv_heads_after [data-run]")
    table.locator("[data-run]").wait_for(timeout=SOON)
    found = survey(lm.model, lm.trace(PROMPT).tokens.ids.tolist())
    expect(table.locator("tbody tr")).to_have_count(len(found.variants))
    expect(table.locator("tbody tr").nth(1)).to_contain_text(f"{found.variants[1].loss:.3f}")
    expect(table.locator(".pg-lab-same .pg-icon")).to_be_visible()
    after.wait_for(timeout=SOON)
    form = page.locator("#pg-kv_heads_form")
    form.locator("select").first.select_option("1")
    expect(page.locator("#pg-kv_heads_diagram")).to_contain_text("query heads use 1 KV head", timeout=SOON)
    expect(page.locator("#pg-kv_heads_where h2")).to_have_text("Divergence by token: 1 · mean", timeout=SOON)
    expect(page.locator("#pg-kv_heads_after h2")).to_have_text("The same head, KV heads: 1", timeout=SOON)
    assert not re.search(r"\{\w+\}", page.locator("#pg-kv_heads_table").text_content())


def test_a_row_is_walked_through_and_scaled(open_page, lm):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="Ways to attend", exact=True).click()
    rows = page.locator("#pg-attention_ways_rows")
    rows.locator("[data-run]").wait_for(timeout=SOON)
    layer, head = json.loads(page.evaluate("JSON.stringify(window.playground.selection.heads)"))[-1]
    trace = lm.trace(PROMPT)

    def expected(at, block):
        values = trace.qkv(layer, head).v[: at + 1]
        return online_steps(np.asarray(trace.scores(layer, head)[at, : at + 1]), values, block)

    last = len(trace.tokens) - 1
    expect(rows.locator("tbody tr")).to_have_count(len(expected(last, 2)), timeout=SOON)
    expect(rows.locator("tbody tr").last).to_contain_text(f"{expected(last, 2)[-1].total:.4f}")
    expect(rows.locator(".pg-lab-same .pg-icon")).to_be_visible()
    page.locator("#pg-attention_ways_form select").select_option("1")
    expect(rows.locator("tbody tr")).to_have_count(last + 1, timeout=SOON)
    page.get_by_role("tab", name="Scaling by √d", exact=True).click()
    table = page.locator("#pg-score_scaling_table")
    table.locator("[data-run]").wait_for(timeout=SOON)
    found = summary(products(trace.scores(layer, head), lm.config.d_head), lm.config.d_head, 0.0)
    expect(table.locator("tbody tr").first).to_contain_text(f"{found.jacobian:.4f}")
    slider = page.locator("#pg-score_scaling_form input[type=range]")
    for _ in range(3):
        slider.press("ArrowRight")
    expect(table).to_contain_text("q·k / d^0.15", timeout=SOON)


def test_the_look_up_is_the_model_s_row_at_t_1_and_one_key_towards_0(open_page, lm):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="Scaling by √d").click()
    page.evaluate("playground.select({heads: [[5, 1]], tokens: [7]})")
    figure = page.locator("#pg-score_scaling_lookup")
    expect(figure.locator("h2")).to_contain_text("Head 5.1", timeout=SOON)
    expect(figure.locator("h2")).to_contain_text("position 7")
    still(page, "#pg-score_scaling_lookup .js-plotly-plot")
    chart = page.locator("#pg-score_scaling_lookup .js-plotly-plot")
    drawn = chart.evaluate("(chart) => chart.data.map(({x, y}) => [[...x], [...y]])")
    trace = lm.trace(PROMPT)
    row, values = trace.pattern(5, 1)[7, :8], trace.qkv(5, 1).v[:8].astype(float)
    *weights, apart = [dict(zip(x, y, strict=True)) for x, y in drawn]
    one = min(apart, key=lambda T: abs(np.log(T)))
    assert one == pytest.approx(1, abs=1e-6)
    # The keys in the figure, and how far the output is from the best one's value, as the model has them.
    assert [each[one] for each in weights] == pytest.approx(sorted(row, reverse=True)[: len(weights)], abs=1e-4)
    best = values[row.argmax()]
    assert apart[one] == pytest.approx(np.linalg.norm(row @ values - best) / np.linalg.norm(best), rel=1e-3)
    # Towards 0 a look-up: all weight on one key, and the output is its value.
    coldest = min(apart)
    scores = trace.scores(5, 1)[7, :8].astype(float) / coldest
    powers = np.exp(scores - scores.max())
    assert weights[0][coldest] == pytest.approx(powers.max() / powers.sum(), abs=1e-4) and weights[0][coldest] > 0.99
    assert apart[coldest] < 0.02 < apart[one]
    expect(figure).to_contain_text(f"({row.argmax()})")
