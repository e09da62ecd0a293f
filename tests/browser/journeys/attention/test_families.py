"""Models of later families as a visitor sees them: their maps, what a weight is made of, and what they do not have."""

import re

import numpy as np
import pytest

from model.api import load_model
from model.predictions.masked import masked_logits
from tests.browser.conftest import READY
from tests.support.models.encoders import TEXT, save_encoder
from tests.support.models.helpers import MORE_VARIANTS, H, L
from tests.support.models.small_models import save_tiny
from tests.support.visitor import SOON, open_tab

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = [pytest.mark.browser, pytest.mark.long]

ROUNDING = 2e-5  # the app and the test may have chosen different float32 products
SHAPE = {"n_layer": L, "d_model": 48, "n_head": H, "d_head": 12, "n_kv_head": 2, "d_mlp": 100}
ENCODER = {"norm_placement": "post", "embed_norm": True, "two_way": True, "head_dense": True, "n_kv_head": H}
# What the steps of a weight say of each; the last layer is looked at.
KINDS: dict[str, tuple[dict, str]] = {
    "gemma": (MORE_VARIANTS["gemma"], "tanh"),
    "bloom": (MORE_VARIANTS["bloom"], "ALiBi"),
    "oss": (MORE_VARIANTS["oss"], "sink"),
    "gptj": (MORE_VARIANTS["gptj"], "√"),
    "encoder": (ENCODER, "also attends to later tokens"),
}
# What stands above the map, the lines and the text.
NOTES = {
    "gemma": "sees only the last 5 tokens. Scores are capped at 3.",
    "bloom": "per token of distance (ALiBi)",
    "oss": "The learned sink takes",
    "gptj": "",
    "encoder": "Tokens also attend to later ones.",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_map_and_the_steps_are_the_model_s(kind, start_app, open_page, tmp_path):
    shape, said = KINDS[kind]
    folder = save_tiny(tmp_path / kind, shaken=True, **SHAPE | shape).path
    page = open_page(
        "#tab=attention",
        url=start_app("--offline", "--model", str(folder)),
        ready=READY,
        viewport={"width": 1280, "height": 900},
    )
    text = page.locator("#prompt textarea").input_value()
    run = load_model(str(folder)).trace(text)
    page.evaluate("heads => playground.select({heads})", [[L - 1, 1]])
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute(
        "data-run", re.compile(f" {L - 1}.1$"), timeout=SOON
    )
    shown = page.evaluate(
        """() => Array.from(document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z,
                 (row) => Array.from(row, (v) => Number.isFinite(v) ? v : null))"""
    )
    pattern, T = run.pattern(L - 1, 1), len(run.tokens)
    width = run.config.window if run.config.mixer_of(L - 1) == "sliding_window" else T
    wanted = pattern if kind == "encoder" else np.where(np.tri(T) - np.tri(T, k=-width) > 0, pattern, np.nan)
    actual = np.array([[np.nan if v is None else v for v in row] for row in shown])
    assert np.array_equal(np.isnan(actual), np.isnan(wanted)) and np.nanmax(np.abs(actual - wanted)) < ROUNDING
    for view, part in {"map": "map_plot", "lines": "lines_links", "text": "text_reading"}.items():
        page.locator(f"[data-key={view}]").click()
        note = page.locator(f"#pg-{part} .pg-about").filter(has_text=NOTES[kind]).first
        if NOTES[kind]:
            expect(note).to_be_visible(timeout=SOON)
    page.locator("[data-key=cell]").click()
    steps = page.locator("#pg-cell_steps")
    expect(steps).to_contain_text(said, timeout=SOON)
    expect(steps).to_contain_text("which is within rounding error")
    if kind == "encoder":
        open_tab(page, "Sampling")
        where = page.locator("[data-screen=sampling]")
        expect(where.get_by_text("has no mask token").first).to_be_visible(timeout=SOON)


def test_the_row_of_views_follows_the_model(start_app, open_page, tmp_path):
    """Routing is offered for a mixture, Neurons for other models; a link to either says what the model lacks."""
    mixture = {"mlp": "swiglu", "n_expert": 5, "experts_per_token": 2, "d_expert": 30}
    folder = save_tiny(tmp_path / "mixture", shaken=True, **SHAPE | mixture).path
    url = start_app("--offline", "--model", str(folder))
    page = open_page("#tab=activations", url=url, ready="#pg-sizes_map [data-run]")
    row = page.locator("#pg-activations_view")
    expect(row.locator("[data-key=routing]")).to_be_visible(timeout=SOON)
    expect(row.locator("[data-key=neurons]")).to_be_hidden()
    row.locator("[data-key=routing]").click()
    for part in ("map", "facts", "path", "load", "entropy"):
        expect(page.locator(f"#pg-routing_{part} h2").first).to_be_visible(timeout=SOON)
    row.locator("[data-key=neurons]").evaluate("(button) => button.click()")  # as a link or the search opens it
    expect(row.locator("[data-key=neurons]")).to_be_visible()
    said = page.locator("[data-screen=activations] .pg-problem", has_text="one MLP per layer")
    expect(said.first).to_be_visible(timeout=SOON)
    assert sum(each.is_visible() for each in said.all()) == 1  # once, though every part says so
    row.locator("[data-key=sizes]").click()
    expect(row.locator("[data-key=neurons]")).to_be_hidden()


def test_an_encoder_predicts_what_is_masked(start_app, open_page, tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    page = open_page(
        "#tab=start",
        url=start_app("--offline", "--model", str(folder)),
        ready="#pg-start_next [data-run]",
        viewport={"width": 1280, "height": 900},
    )
    lm = load_model(str(folder))
    page.locator("#prompt textarea").fill(TEXT)
    following = page.locator("#pg-start_next")
    expect(following.get_by_role("heading", name="The masked token")).to_be_visible(timeout=SOON)
    expect(following).to_contain_text("in place of “[MASK]” at position 3")
    expect(page.get_by_text("Read as special tokens")).to_have_count(0)
    run = lm.trace(TEXT)
    logits = masked_logits(run, 3, lm.tokenizer.mask_id).astype(np.float64)
    shares = np.exp(logits - logits.max())
    percent = f"{100 * shares.max() / shares.sum():.2f}%"
    expect(following.locator(".pg-start-bar b").first).to_have_text(percent)
    expect(following.get_by_role("button", name="Keep writing")).to_be_hidden()
    page.evaluate("() => playground.select({tokens: [2]})")
    expect(following).to_contain_text("in place of “·cat” at position 2", timeout=SOON)
    put = following.locator(".pg-start-bar:enabled").first
    word = put.locator("code").inner_text().removeprefix("·")
    put.click()
    expect(page.locator("#prompt textarea")).to_have_value(
        re.compile(rf"^The ?{re.escape(word)} \[MASK\] on"), timeout=SOON
    )
    open_tab(page, "Predictions")
    text = page.locator("#pg-surprise_text")
    expect(text).to_contain_text("Pseudo-log-likelihood", timeout=SOON)
    expect(text.locator(".pg-surprise-unscored")).to_have_text(["[CLS]", "[MASK]", "[SEP]"])
    open_tab(page, "Anatomy")
    expect(page.locator("#pg-diagram_figure")).to_contain_text("Dense layer of the head", timeout=SOON)


def test_an_encoder_without_a_head_says_so(start_app, open_page, tmp_path):
    folder = save_encoder(tmp_path / "bare", head=False)
    page = open_page("#tab=start", url=start_app("--offline", "--model", str(folder)), ready="#pg-start_way")
    said = page.get_by_text("bare has no head that predicts tokens: its checkpoint holds only the layers.")
    expect(said.first).to_be_visible(timeout=SOON)
