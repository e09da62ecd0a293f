"""The views of norms as a visitor uses them: one norm walked on one token, and norms that are changed."""

import numpy as np
import pytest

from model.activations.norm_swap import places_of, swapped
from model.activations.norm_walk import norms_of, walk
from model.attention.effects import next_tokens
from tests.support.visitor import SOON, expect, export, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def open_view(open_page, tab, view, ready, query="", **context):
    page = open_page(query, **context)
    open_tab(page, tab)
    page.get_by_role("tab", name=view, exact=True).click()
    page.locator(f"{ready} [data-run]").wait_for(timeout=SOON)
    return page


def redrawn(page, part, change):
    """Do something, and wait until a part shows another run."""
    box = page.locator(f"#pg-{part} [data-part]")
    before = box.get_attribute("data-run")
    change()
    expect(box).not_to_have_attribute("data-run", before, timeout=SOON)


def cells(page):
    """The walk's table in full digits: {dimension: [numbers]}."""
    read = "rows => rows.map((row) => [...row.children].map((cell) => cell.title || cell.textContent))"
    lines = page.locator(".pg-norm-table tbody tr").evaluate_all(read)
    return {int(line[0]): [float(text) for text in line[1:]] for line in lines}


def assert_walk(page, run, place, position):
    found, shown = walk(run, *place, position), cells(page)
    assert len(shown) >= 8
    for d, numbers in shown.items():
        steps = [found.x, found.centered, found.normalized, found.gain, found.scaled, found.bias, found.out]
        assert numbers[:7] == pytest.approx([values[d] for values in steps], abs=1e-4)
        assert numbers[7] == pytest.approx(numbers[6], abs=1e-5)  # the model's own


def test_one_norm_is_walked_on_any_token(open_page, lm):
    page, run = open_view(open_page, "Norms", "One norm", "#pg-one_norm_walk"), lm.trace(PROMPT)
    assert_walk(page, run, (0, "norm1"), 9)
    expect(page.locator(".pg-norm-steps li")).to_have_count(5)
    expect(page.locator("#pg-one_norm_walk .pg-why-same")).to_contain_text("float32 rounding")
    redrawn(page, "one_norm_walk", lambda: page.locator(".pg-chip").nth(2).click())
    assert_walk(page, run, (0, "norm1"), 2)
    n = norms_of(lm.config).index((5, "norm2"))
    form = page.locator("#pg-one_norm_form select")
    redrawn(page, "one_norm_walk", lambda: form.select_option(str(n)))
    assert_walk(page, run, (5, "norm2"), 2)
    # One dimension is followed through all steps, by pointer and by keyboard.
    told = page.locator(".pg-norm-told")
    page.locator(".pg-norm-table tbody tr").first.hover()
    expect(told).to_contain_text(" → n: ")
    page.locator("#pg-one_norm_walk h2").hover()
    expect(told).to_contain_text("use the arrow keys")
    told.press("End")
    expect(told).to_contain_text(f"dimension {lm.config.d_model - 1}: x:")
    told.press("Home")
    expect(told).to_have_attribute("aria-valuenow", "0")
    expect(page.locator(".pg-norm-table .pg-here th")).to_have_text("0")
    inked = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v)"
    assert all(canvas.evaluate(inked) for canvas in page.locator(".pg-norm-strip canvas").element_handles())
    for name in ("values", "gains", "all", "batch"):
        page.locator(f"#pg-one_norm_{name} .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-one_norm_why dt")).to_have_count(3)
    arrays = np.load(export(page.locator("#pg-one_norm_walk"), "NPZ"))
    assert arrays["out"] == pytest.approx(walk(run, 5, "norm2", 2).out, rel=1e-3, abs=1e-4)


def test_norms_are_changed(open_page, lm):
    page, run = open_view(open_page, "Norms", "Change the norm", "#pg-norm_swap_next"), lm.trace(PROMPT)
    control = lambda name: page.locator(f"#pg-norm_swap_form [data-name={name}] select")  # noqa: E731
    ids = "rows => rows.map((row) => +row.title.match(/\\((\\d+)\\)$/)[1])"
    redrawn(page, "norm_swap_next", lambda: control("swap").select_option("no_gain"))
    redrawn(page, "norm_swap_next", lambda: control("where").select_option("final"))
    found = swapped(run, "no_gain", places_of(lm.config, "final"))
    table = next_tokens(run, found, 9)
    shown = page.locator("#pg-norm_swap_next tbody th")
    assert shown.evaluate_all(ids) == table["id"].tolist()
    expect(page.locator("#pg-norm_swap_facts")).to_contain_text("mean over 10 positions")
    page.locator("#pg-norm_swap_sizes .main-svg").first.wait_for(timeout=SOON)
    expect(control("norm")).to_be_hidden()
    redrawn(page, "norm_swap_next", lambda: control("where").select_option("one"))
    expect(control("norm")).to_be_visible()
    redrawn(page, "norm_swap_next", lambda: page.locator(".pg-chip").nth(4).click())
    expect(page.locator("#pg-norm_swap_next h2")).to_contain_text("position 4")
