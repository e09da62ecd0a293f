"""The views of draws and of the KV cache as a visitor uses them."""

import re

import pytest
import torch

from model.generation.cache_costs import cache_bytes
from model.sampling.draw_statistics import bar_of, fit, uniforms
from model.sampling.pipeline import draw, softmax, uniform, usable
from model.sampling.warps import final
from tests.support.visitor import SOON, expect, open_tab
from viz.views.sampling.pipelines import DEFAULT

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def shares(lm, steps):
    """The distribution after the prompt, worked out anew."""
    logits = usable(torch.from_numpy(lm.trace(PROMPT).logits_at(-1)), lm.tokenizer.vocab_size)
    return softmax(final(logits, steps).numpy())


def test_one_number_picks_one_token(open_page, lm):
    page = open_page()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Draws", exact=True).click()
    box, said = page.locator("#pg-draws_bar [data-part]"), page.locator(".pg-draw-said")
    page.locator("#pg-draws_bar [data-run]").wait_for(timeout=SOON)
    chances = shares(lm, DEFAULT)

    def drawn(u):
        expect(box).to_have_attribute("data-token", str(draw(chances, u)), timeout=SOON)
        expect(said).to_contain_text(f"u = {u:.6f} falls into")
        expect(said).to_contain_text("This token is drawn")
        assert not re.search(r"\{\w+\}", said.text_content())

    drawn(uniform(0, 0))
    again, slider = page.get_by_role("button", name="Draw again"), page.locator("#pg-draws_bar input[type=range]")
    for step in (1, 2, 3):
        again.click()
        drawn(uniform(0, step))
    expect(said).to_contain_text("Seed 0, step 3:")
    # By hand: keyboard and click are answered by the page itself.
    slider.press("Home")
    drawn(0.0)
    slider.press("ArrowRight")
    drawn(0.001)
    expect(said).to_contain_text("By hand:")
    bar = page.locator(".pg-draw-bar").bounding_box()
    page.locator(".pg-draw-bar").click(position={"x": 0.9 * bar["width"], "y": 20})
    expect(box).to_have_attribute("data-token", str(draw(chances, 0.9)))
    expect(slider).to_be_focused()
    page.locator(".pg-draw-part").first.hover()
    expect(page.locator(".pg-draw-read")).to_contain_text("rank 1, probability")
    # Beyond the numbers that the page has, and another seed.
    page.get_by_role("spinbutton", name="Step", exact=True).fill("777")
    drawn(uniform(0, 777))
    page.get_by_role("spinbutton", name="Seed", exact=True).fill("5")
    drawn(uniform(5, 777))
    expect(page.locator("#pg-draws_many")).to_contain_text("seed 5, steps 0 to 999")
    page.locator("#pg-draws_form select").select_option("10000")
    expect(page.locator("#pg-draws_many h2")).to_contain_text("10,000 draws", timeout=SOON)
    bar = bar_of(chances)
    test = fit(bar.counts(uniforms(5, 10_000)), bar.shares)
    fitted = f"χ² = {test.statistic:.2f} (degrees of freedom: {test.degrees})"
    expect(page.locator("#pg-draws_fit")).to_contain_text(fitted)
    # Without steps most tokens are in the tail, which the server looks up.
    for check in page.locator("#pg-pipeline input[type=checkbox]").element_handles():
        check.uncheck()
    expect(page.locator("#pg-draws_bar .pg-about").first).to_contain_text("8,192 tokens", timeout=SOON)
    chances = shares(lm, ())
    slider.press("End")
    drawn(0.999)
    expect(page.locator(".pg-draw-rest.pg-here")).to_have_count(1)
    page.locator("#pg-draws_bar").get_by_role("button", name="Python").click()
    expect(page.locator("#pg-draws_bar pre")).to_contain_text("u = 0.999")
    page.locator("#pg-draws_many .main-svg").first.wait_for(timeout=SOON)


def test_the_cache_is_measured_on_a_narrow_dark_chinese_page(open_page, lm):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    page.locator("#prompt textarea").fill("The dog sat on the mat because it was tired")  # without a stored result
    expect(page.locator("#pg-tokens .pg-chip").nth(1)).to_have_text("·dog", timeout=SOON)
    open_tab(page, "采样")
    page.get_by_role("tab", name="KV 缓存").click()
    result = page.locator(".pg-cache-result")
    expect(result).to_contain_text(f"{cache_bytes(lm.config, 1, 10):,}", timeout=SOON)
    page.locator("#pg-kv_cache_form select").select_option("32")
    expect(result).to_contain_text(f"{cache_bytes(lm.config, 32, 10):,}", timeout=SOON)
    expect(page.locator("#pg-kv_cache_formula .pg-lab-same")).to_be_visible()
    expect(page.locator(".pg-cache-factor")).to_have_count(7)
    page.locator("#pg-kv_cache_bytes .main-svg").first.wait_for(timeout=SOON)
    # As fast as the button changes, unless the work is done before that.
    changes = """([state, look]) => {
      const { dataset } = document.querySelector("#pg-kv_cache_job [data-part]");
      if (look) return [state, "done"].includes(dataset.state);
      if (dataset.state !== "done") document.querySelector("#pg-kv_cache_job [data-part] button").click();
    }"""
    for state in ("running", "idle") * 4:
        page.evaluate(changes, [state, False])
        page.wait_for_function(changes, arg=[state, True], timeout=SOON)
    page.evaluate(changes, ["idle", False])
    rows = page.locator("#pg-kv_cache_table tbody tr")
    expect(rows).to_have_count(6, timeout=2 * SOON)
    expect(page.locator("#pg-kv_cache_table .pg-lab-same")).to_be_visible()
    expect(page.locator("#pg-kv_cache_times")).to_contain_text("OMP_WAIT_POLICY")
    page.locator("#pg-kv_cache_times .main-svg").first.wait_for(timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
