"""Journeys through the viewer alone in a file, opened from the disk without a network."""

import csv
import io

import numpy as np
import pytest

from tests.browser.conftest import DESKTOP, Watch, blank_page
from tests.support.visitor import SOON, expect
from viz.labels import visible
from viz.show_attention import show_attention
from viz.words import section, words

pytestmark = pytest.mark.browser
WORDS = section(words("en"), "viewer")
STEP = 0.5 / 65535 + 1e-7  # rounding of a stored weight
PHONE = {"width": 390, "height": 844}
CHART = ".pg-viewer-chart"
TOKENS = ["The", "Ġcat", "Ġunbe", "liev", "able", ".", "ĠIt", "Ġsat"]
MAP = (
    f"() => [...document.querySelector('{CHART}').data].map(({{ z }}) => z.map((row) => [...row].map((v) => v ?? NaN)))"
)

BESIDE = """all => all.map((value) => {
  const line = value.closest(".pg-viewer-row");
  return [value.dataset.head, [...line.parentNode.children].indexOf(line), +value.title];
})"""


def weights(*shape: int, causal: bool = False, seed: int = 0) -> np.ndarray:
    scores = 2 * np.random.default_rng(seed).normal(size=shape)
    if causal:
        scores = np.where(np.tri(*shape[-2:], dtype=bool), scores, -np.inf)
    found = np.exp(scores - scores.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


CAUSAL, CROSS = weights(3, 4, 8, 8, causal=True), weights(2, 3, 4, 6, seed=1)
SOURCE, TARGET = ["▁The", "▁cat", "▁sat", "▁down", ".", "</s>"], ["▁Die", "▁Katze", "▁saß", "</s>"]
VISION = weights(2, 2, 7, 7, seed=2)
PIXELS = np.linspace(0, 255, 40 * 60 * 3).reshape(40, 60, 3).astype(np.uint8)


@pytest.fixture
def open_file(profile, tmp_path):
    """Open attention as a saved file. At the end, no script may have failed, and nothing else been asked for."""
    pages, watch = [], Watch()

    def opened(shown, viewport=DESKTOP, **options):
        page = blank_page(profile, viewport=viewport, **options)
        pages.append(page)
        page.route("**", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        address = shown.save(tmp_path / "shown.html").as_uri()
        watch.over(page, address)
        page.goto(address)
        page.locator("#viewer[data-run] canvas[data-drawn]").wait_for(timeout=SOON)
        return page

    yield opened
    watch.end()
    for page in pages:
        page.close()
    watch.check()


def panel(page, name: str) -> None:
    page.get_by_role("button", name=WORDS[f"panel_{name}"], exact=True).click()
    page.locator(f"[data-panel={name}]").wait_for(timeout=SOON)


def heads(page, *indices: int) -> None:
    """Select heads by their places in the grid."""
    for n, index in enumerate(indices):
        page.locator(f".pg-head[data-index='{index}']").click(modifiers=["Shift"] if n else [])


def drawn(page, unit: str, *names: str) -> list[np.ndarray]:
    """The numbers of the maps, once they show these heads."""
    page.locator(f"{CHART}[data-drawn='{unit} {' '.join(names)}']").wait_for(timeout=SOON)
    return [np.array(z, float) for z in page.evaluate(MAP)]


def causal():
    return show_attention(CAUSAL, TOKENS, title="mine.npz")


def test_the_maps_show_the_numbers_of_the_array(open_file):
    page = open_file(causal())
    expect(page.locator("h1")).to_have_text("mine.npz")
    expect(page.locator(".pg-viewer-facts")).to_contain_text("3 layers × 4 heads")
    heads(page, 5, 11)
    found = drawn(page, "tokens", "1.1", "2.3")
    above = ~np.tri(8, dtype=bool)
    for z, want in zip(found, (CAUSAL[1, 1], CAUSAL[2, 3]), strict=True):
        assert np.isnan(z[above]).all()  # blank, not zero
        assert np.abs(z - want)[~above].max() <= STEP


def test_words_sum_their_keys_and_average_their_queries(open_file):
    page = open_file(causal())
    heads(page, 5)
    page.get_by_role("button", name=WORDS["unit_words"], exact=True).click()
    (z,) = drawn(page, "words", "1.1")
    spans = [(0, 1), (1, 2), (2, 5), (5, 6), (6, 7), (7, 8)]
    want = np.array([[CAUSAL[1, 1, q:r, k:j].sum(1).mean() for k, j in spans] for q, r in spans])
    assert np.allclose(np.nan_to_num(z), want, atol=5 * STEP) and np.isnan(z[0, 1])
    assert np.allclose(np.nansum(z, axis=1), 1, atol=8 * STEP)
    expect(page.locator(CHART)).to_contain_text("·unbelievable")
    expect(page.locator(".pg-metric", has_text="effective span")).to_contain_text("words")
    gap = page.locator(CHART).evaluate(
        """(chart) => { const low = chart.querySelector('.heatmaplayer image').getBoundingClientRect().bottom;
          return Math.min(...[...chart.querySelectorAll('.xtick text')].map((each) =>
            each.getBoundingClientRect().top - low)); }"""
    )
    assert 0 < gap < 20  # the labels stay close below the map


def test_a_cell_is_said_in_a_sentence_and_walked_with_keys(open_file):
    page = open_file(causal())
    heads(page, 0)
    drawn(page, "tokens", "0.0")
    chart, readout = page.locator(CHART), page.locator("[data-panel=map] .pg-viewer-readout")
    chart.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    expect(readout).to_contain_text("·It (6) attends to ·cat (1)")
    expect(readout).to_contain_text(f"{100 * CAUSAL[0, 0, 6, 1]:.1f}"[:3])
    page.keyboard.press("End")
    expect(readout).to_have_text("·It (6) cannot attend to ·sat (7)")
    page.keyboard.press("Escape")
    expect(readout).to_contain_text("Rows are queries")


def test_the_grid_is_walked_with_keys_and_has_at_most_eight_heads(open_file):
    page = open_file(causal())
    heads(page, 0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Enter")
    chips = page.locator(".pg-viewer-chip")
    expect(chips).to_have_text(["Head 0.0", "Head 1.1"])
    heads(page, *range(10))
    expect(chips).to_have_count(8)
    hues = page.evaluate("[...document.querySelectorAll('.pg-viewer-chip .pg-swatch')].map((e) => e.style.background)")
    assert len(set(hues)) == 8


def test_a_finger_adds_heads_with_a_switch(open_file):
    page = open_file(causal())
    heads(page, 0)
    add = page.locator(".pg-viewer-add")
    expect(add).to_be_hidden()  # with a mouse, Shift does it
    client = page.context.new_cdp_session(page)
    client.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    client.send("Emulation.setDeviceMetricsOverride", {**PHONE, "deviceScaleFactor": 1, "mobile": True})
    expect(add).to_be_visible()
    add.click()
    page.locator(".pg-head[data-index='6']").click()
    expect(page.locator(".pg-viewer-chip")).to_have_text(["Head 0.0", "Head 1.2"])


def test_a_number_colors_and_sorts_the_heads(open_file):
    shown = causal()
    page, table = open_file(shown), shown.numbers()
    page.locator("[data-name=number]").select_option("largest")
    expect(page.locator(".pg-viewer-heads canvas")).to_have_attribute("data-drawn", "values")
    expect(page.locator(".pg-viewer-heads .pg-viewer-bar")).to_be_visible()
    page.get_by_role("button", name=WORDS["grid_sorted"], exact=True).click()
    tops = page.locator(".pg-head").evaluate_all("all => all.map((b) => [b.offsetTop, b.offsetLeft, +b.dataset.index])")
    order = np.argsort(-table["largest"].to_numpy(), kind="stable").tolist()
    assert [index for *_, index in sorted(tops)] == order
    panel(page, "table")
    page.locator("[data-key=largest] button").click()
    first = page.locator(".pg-viewer-table tbody button").first
    expect(first).to_have_attribute("data-index", str(order[0]))
    expect(page.locator("[data-key=largest]")).to_have_attribute("aria-sort", "descending")
    first.click()
    expect(first).to_have_attribute("aria-pressed", "true")


def test_lines_lead_from_queries_to_other_keys(open_file):
    page = open_file(show_attention(CROSS, TARGET, SOURCE))
    heads(page, 0, 4)
    panel(page, "lines")
    expect(page.locator(".pg-viewer-query .pg-lines-token")).to_have_text(["·Die", "·Katze", "·saß", "</s>"])
    expect(page.locator(".pg-viewer-key .pg-lines-token")).to_have_count(6)
    page.locator("[data-panel=lines] input[type=range]").fill("100")
    page.locator(".pg-viewer-query .pg-lines-token").nth(1).click()
    page.mouse.move(5, 5)
    values = page.locator(".pg-viewer-key .pg-viewer-value").evaluate_all(BESIDE)
    want = {("0.0", k): CROSS[0, 0, 1, k] for k in range(6)} | {("1.1", k): CROSS[1, 1, 1, k] for k in range(6)}
    assert len(values) == 12 and all(abs(want[head, k] - value) < 2e-5 for head, k, value in values)
    assert int(page.locator("[data-panel=lines] canvas").get_attribute("data-curves")) == 12
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pg-viewer-key .pg-lines-token").nth(1)).to_be_focused()


def test_the_text_of_the_keys_is_colored_by_the_picked_query(open_file):
    page = open_file(show_attention(CROSS, TARGET, SOURCE))
    heads(page, 0, 4)
    panel(page, "text")
    values = "all => all.map((e) => +e.dataset.value)"
    page.locator("[data-side=query] .pg-reading-token").nth(2).click()
    found = page.locator("[data-side=key] .pg-reading-token").evaluate_all(values)
    assert np.allclose(found, (CROSS[0, 0, 2] + CROSS[1, 1, 2]) / 2, atol=2 * STEP)
    page.get_by_role("button", name="1.1", exact=True).click()
    page.locator("[data-side=key] .pg-reading-token").nth(5).click()
    found = page.locator("[data-side=query] .pg-reading-token").evaluate_all(values)
    assert np.allclose(found, CROSS[1, 1, :, 5], atol=STEP)


def test_a_patch_of_the_picture_is_the_query(open_file):
    tokens = ["[CLS]", *(f"p{n}" for n in range(6))]
    page = open_file(show_attention(VISION, tokens, image=PIXELS, grid=(2, 3)))
    heads(page, 3)
    readout = page.locator("[data-panel=image] .pg-viewer-readout")
    page.locator(".pg-viewer-patches button").nth(4).click()
    page.mouse.move(5, 5)
    row = VISION[1, 1, 5]
    expect(readout).to_contain_text(f"(5) gives {100 * row[1:].sum():.1f}% of its attention to the picture")
    expect(page.locator(".pg-viewer-others")).to_contain_text(f"{100 * row[0]:.1f}"[:3])
    strongest = page.evaluate("""() => {
      const canvas = document.querySelector(".pg-viewer-picture canvas"), pen = canvas.getContext("2d");
      return [0, 1, 2, 3, 4, 5].map((i) => pen.getImageData(
        ((i % 3) + 0.5) * canvas.width / 3, (Math.floor(i / 3) + 0.5) * canvas.height / 2, 1, 1).data[3]);
    }""")
    assert np.argsort(strongest).tolist() == np.argsort(-row[1:]).tolist()  # the more weight, the less dark
    page.locator(".pg-viewer-others .pg-chip", has_text="[CLS]").click()
    expect(readout).to_contain_text("[CLS] (0) gives")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_is_wider_than_a_phone(open_file, language):
    page = open_file(
        show_attention(CAUSAL, [*TOKENS[:7], "a" * 90], language=language), viewport=PHONE, color_scheme="dark"
    )
    assert page.evaluate("document.body.classList.contains('dark')")
    assert page.evaluate("getComputedStyle(document.querySelector('.pg-viewer')).backgroundColor") == "rgb(21, 26, 36)"
    named = section(words(language), "viewer")
    for name in ("map", "lines", "text", "table"):
        page.locator(".pg-viewer-tabs").get_by_role("button", name=named[f"panel_{name}"], exact=True).click()
        expect(page.locator(f"[data-panel={name}]")).to_be_visible()
        page.locator(f"[data-panel={name}][data-drawn], [data-panel={name}] [data-drawn]").first.wait_for(timeout=SOON)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_hostile_tokens_are_shown_as_text(open_file):
    tokens = ["<img src=x onerror=window.hacked=1>", "\u202eabc", "\n", "", "<b>b</b>", "&lt;", "%{y}", "{query}"]
    page = open_file(show_attention(CAUSAL, tokens, title="<img src=x onerror=window.hacked=1>"))
    shown = [visible(text) for text in tokens]
    for name, kind in (("lines", ".pg-viewer-query .pg-lines-token"), ("text", ".pg-reading-token")):
        panel(page, name)
        expect(page.locator(kind)).to_have_text(shown)
    panel(page, "map")
    expect(page.locator(f"{CHART} .xtick")).to_have_count(8)
    ticks = page.locator(f"{CHART} .xtick text").all_text_contents()
    assert ticks[1:4] == shown[1:4] and ticks[4:] == shown[4:] and ticks[0].startswith("<img src=x")
    assert page.evaluate("window.hacked") is None and page.locator("#viewer img").count() == 0


def test_the_shown_weights_are_saved(open_file):
    page = open_file(causal())
    heads(page, 5)
    drawn(page, "tokens", "1.1")
    with page.expect_download() as made:
        page.get_by_role("button", name=WORDS["save_numbers"], exact=True).click()
    rows = list(csv.reader(io.StringIO(made.value.path().read_text(encoding="utf-8-sig"))))[1:]
    assert len(rows) == 8 * 9 // 2
    assert all(abs(CAUSAL[1, 1, int(q), int(k)] - float(weight)) <= STEP for _, q, _, k, _, weight, _ in rows)
    with page.expect_download() as made:
        page.get_by_role("button", name=WORDS["save_picture"], exact=True).click()
    assert made.value.path().read_bytes().startswith(b"\x89PNG")
