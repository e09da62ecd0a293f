"""The views of position vectors and of rotating pairs as a visitor uses them."""

import math

import pytest
import torch

from model.design.positions import contributions, head_qk, pair_of
from tests.support.models.rounding import within
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def test_pairs_turn_without_asking_the_server(open_page, lm):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="RoPE", exact=True).click()
    box, said = page.locator("#pg-rope_pairs [data-part]"), page.locator(".pg-rope-status")
    page.locator("#pg-rope_pairs [data-run]").wait_for(timeout=SOON)
    trace = lm.trace(PROMPT)

    def read(name):
        return float(box.get_attribute(f"data-{name}"))

    query, key = int(read("query")), int(read("key"))
    layer, head = page.evaluate("window.playground.selection.heads.at(-1)")
    # The page's process may have chosen other kernels: two runs of the same scores.
    ids = torch.from_numpy(trace.tokens.ids).long()[None]
    apart = within(lm.model, ids, sites=("scores",))["scores", layer][0, head, :, 0]
    pair = pair_of(lm.config, head_qk(trace, layer, head), query, key)
    assert math.isclose(read("score"), contributions(pair, [query - key]).sum(), abs_tol=apart[query])
    expect(page.locator(".pg-rope-pair")).to_have_count(16)
    expect(page.locator("#pg-rope_pairs .pg-about").first).to_contain_text("no RoPE")
    # Both shifted: the hands turn, the score stays.
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "playground/view" in request.url else None)
    shift, distance = page.locator("#pg-rope_pairs input[type=range]").all()
    hand, before = page.locator(".pg-rope-q.pg-rope-hand").first, read("score")
    start = hand.get_attribute("d")
    shift.focus()
    shift.press("End")
    expect(said).to_contain_text(f"Query at {query + (1 << 20):,}")
    assert hand.get_attribute("d") != start and math.isclose(read("score"), before, abs_tol=1e-6)
    # The key alone: the score is that of the distance; a key before the text moves both up.
    distance.focus()
    distance.press("End")
    expect(box).to_have_attribute("data-query", str(query + (1 << 20)))
    page.get_by_role("button", name="Back to the prompt").click()
    expect(said).to_contain_text(f"Query at {query}, key at {key}, distance {query - key}")
    assert read("score") == before
    page.locator("#pg-rope_pairs input[type=range]").last.press("End")
    expect(box).to_have_attribute("data-key", "0")
    far = int(read("query"))
    assert far == lm.config.n_ctx - 1
    assert math.isclose(read("score"), contributions(pair, [far]).sum(), abs_tol=apart[query])
    assert not asked
    # Another pair of tokens.
    page.evaluate("window.playground.select({ tokens: [2, 5] })")
    expect(box).to_have_attribute("data-query", "5", timeout=SOON)
    expect(box).to_have_attribute("data-key", "2")
    pair = pair_of(lm.config, head_qk(trace, layer, head), 5, 2)
    assert math.isclose(read("score"), contributions(pair, [3]).sum(), abs_tol=apart[5])
    page.locator("#pg-rope_shift .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-rope_facts dd")).to_have_count(6)


def test_schemes_on_a_narrow_dark_chinese_page(open_page, lm):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_tab(page, "设计")
    matrix = page.locator("#pg-position_vectors_matrix")
    expect(matrix.locator("h2")).to_contain_text("可学习的位置表", timeout=SOON)
    page.locator("#pg-position_vectors_waves .main-svg").first.wait_for(timeout=SOON)
    scheme = page.locator("#pg-position_vectors_form select").first
    scheme.select_option("rope")
    expect(page.locator("#pg-position_vectors_facts")).to_contain_text("16 对", timeout=SOON)
    expect(matrix.locator(".pg-source")).to_contain_text("没有 RoPE")
    scheme.select_option("none")
    nothing = matrix.locator(".pg-problem")
    expect(nothing).to_contain_text("不写入任何内容", timeout=SOON)
    # What a view says of itself goes with it.
    page.get_by_role("tab", name="RoPE", exact=True).click()
    page.locator("#pg-rope_pairs [data-run]").wait_for(timeout=SOON)
    expect(nothing).to_be_hidden()
    page.locator("#pg-rope_bars .main-svg").first.wait_for(timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
