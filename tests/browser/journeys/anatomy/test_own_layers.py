"""The Anatomy of a model whose layers differ in size and share keys and values (Gemma 4), with numbers by hand."""

import pytest

from tests.support.models.helpers import OWN_LAYERS, H
from tests.support.models.small_models import save_tiny
from tests.support.visitor import SOON, expect, open_view

pytestmark = [pytest.mark.browser, pytest.mark.long]

D, G, M, P, V, T = 48, 2, 100, 6, 270, 5
SHAPE = {"n_layer": 4, "d_model": D, "n_head": H, "n_kv_head": G, "d_mlp": M}


def test_each_kind_of_layer_is_drawn_and_counted_with_its_own_sizes(start_app, open_page, tmp_path):
    folder = save_tiny(tmp_path / "gemma4", shaken=True, **SHAPE | OWN_LAYERS["gemma4 E2B"]).path
    url = start_app("--offline", "--model", str(folder))
    page = open_page("#tab=anatomy", url=url, ready="#pg-diagram_figure [data-run]")
    figure = page.locator("#pg-diagram_figure")
    names = figure.locator(".pg-dia-times")
    expect(names).to_have_text(
        [f"{name}× 1 · layer {n}" for n, name in enumerate(["Sliding window", "Attention"] * 2)], timeout=SOON
    )
    sizes = [f"{D} → {H * E}" for E in (12, 16, 12, 16)]
    expect(figure.locator("[data-step=q] .pg-dia-second span")).to_have_text(sizes)
    expect(figure.locator("[data-step=k] .pg-dia-second span")).to_have_text([f"{D} → {G * E}" for E in (12, 16)])
    widths = [f"{D} → {width}" for width in (M, M, 2 * M, 2 * M)]
    expect(figure.locator("[data-step=up] .pg-dia-second span")).to_have_text(widths)
    figure.locator("[data-step=borrowed]").first.click()
    facts = page.locator("#pg-diagram_facts")
    expect(facts).to_contain_text("ℓ ∈ {2}: k′, v of layer 0;  ℓ ∈ {3}: k′, v of layer 1", timeout=SOON)

    open_view(page, "Anatomy", "compute")
    page.locator("#pg-compute_form input").first.fill(str(T))
    page.locator("#pg-compute_form input").first.press("Enter")
    heads = 12 + 16 + 12 + 16
    layers = 2 * D * (2 * H * heads + 2 * G * 28) + 3 * 2 * D * (2 * M + 4 * M) + 4 * 4 * D * P
    total = T * (layers + 2 * D * 4 * P + 2 * D * V) + 4 * T * T * H * heads
    table = page.locator("#pg-compute_prompt")
    expect(table).to_contain_text(f"PyTorch's own formulas count {total:,} FLOPs", timeout=SOON)
    expect(table).to_contain_text("equal.")

    open_view(page, "Anatomy", "memory")
    cache = 4 * 2 * G * (12 * 4 + 16 * 256)  # 256 tokens; of a window of 5, 4 are kept
    row = page.locator("#pg-memory_table tr", has_text="KV cache")
    expect(row).to_contain_text(f"{cache:,}", timeout=SOON)
