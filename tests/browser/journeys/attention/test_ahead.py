"""A long prompt: the picked head's map is there while the layers above are still computed, and stays as it is."""

import pytest

from tests.browser.conftest import READY
from tests.support.models.small_models import TEXT, save_tiny
from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser

LONG = " ".join([TEXT] * 40)  # some 1,400 tokens, of which the runs of all layers take a second or more

# When the map of another prompt than `before` was drawn, and when the tokens' chips were, which come with the answer.
WATCH = """(before) => {
  const [map, tokens] = ["map_plot", "tokens"].map((name) => document.querySelector(`#pg-${name} [data-part]`));
  const seen = (window.seen = { maps: [], answer: null, pale: [] });
  const pale = () => [...document.querySelectorAll("[data-behind]")].map((part) => part.dataset.part);
  const watch = new MutationObserver(() => {
    const now = map.dataset.run.split(" ")[0];
    if (now === before || seen.maps.at(-1)?.run === now) return;
    seen.maps.push({ run: now, at: performance.now() });
    seen.pale = pale();
  });
  watch.observe(map, { attributes: true, attributeFilter: ["data-run"] });
  const chips = tokens.dataset.run;
  new MutationObserver(() => {
    if (tokens.dataset.run !== chips) seen.answer ??= performance.now();
  }).observe(tokens, { attributes: true, attributeFilter: ["data-run"] });
}"""


@pytest.fixture(scope="module")
def deep_app(start_app, tmp_path_factory):
    """The address of an app whose model has many layers."""
    shape = {"n_layer": 16, "d_model": 64, "n_head": 8, "n_ctx": 1600}
    folder = save_tiny(tmp_path_factory.mktemp("deep"), **shape).path
    return start_app("--offline", "--model", str(folder), "--max-tokens", "1600")


def test_the_map_of_the_picked_head_comes_before_the_answer(open_page, deep_app):
    page = open_page("#tab=attention&prompt=The%20cat&heads=1.2", url=deep_app, ready=READY)
    before = page.locator("#pg-map_plot [data-part]").get_attribute("data-run").split()[0]
    page.evaluate(WATCH, before)
    page.locator("#prompt textarea").fill(LONG)
    page.wait_for_function("() => seen.answer !== null && seen.maps.length > 0", timeout=SOON)
    seen = page.evaluate("seen")
    (first,) = seen["maps"]
    assert first["at"] < seen["answer"]
    assert set(seen["pale"]) == {"header", "tokens", "overview_heads"}
    assert page.locator("[data-behind]").count() == 0
    expect(page.locator("#pg-map_plot h2")).to_have_text("Head 1.2")
    assert page.locator("#pg-overview_heads [data-part]").get_attribute("data-run") == first["run"]
