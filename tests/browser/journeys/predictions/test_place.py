"""Hide a token and place a vector, as a visitor does: by a click on a chip or on a cell, on a phone, in Chinese."""

import pytest
import torch

from model.gpt.edits import Edit
from model.steering.placing import placing_edit, reachable
from tests.support.visitor import SOON, open_tab
from viz.numbers import percent

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

CAT = "The cat sat on the mat because it was tired"
SOURCE = "Tom lost his favorite toy. Tom was very"


def grid(page, number):
    return page.locator(".pg-place-grid").nth(number)


def open_place(open_page, query="", tab="Predictions", **context):
    page = open_page(query, **context)
    open_tab(page, tab)
    page.locator("#pg-predictions_view [data-key=place]").click()
    grid(page, 2).locator("tbody button").first.wait_for(timeout=SOON)
    return page


def cell(page, number, row, position):
    return grid(page, number).locator("tbody tr").nth(row).locator("button").nth(position)


def test_a_vector_moves_from_cell_to_cell_and_is_kept_as_an_edit(open_page, lm):
    page = open_place(open_page)
    expect(cell(page, 2, 8, 9)).to_have_text("·sad")
    expect(page.locator(".pg-place-still")).to_have_count(90 - 3)
    told = page.locator("[data-part=place_use] .pg-about").first
    expect(told).to_contain_text("“·sad”, which the source itself predicts, goes from")
    cell(page, 1, 3, 5).click()
    run, other = lm.trace(CAT), lm.trace(SOURCE)
    reach = reachable(run, 3, 5)
    expect(page.locator(".pg-place-still")).to_have_count(int((~reach).sum()), timeout=SOON)
    expect(cell(page, 2, 4, 7)).not_to_have_class("pg-place-still")
    expect(cell(page, 1, 3, 5)).to_have_attribute("aria-pressed", "true")
    cell(page, 0, 3, 2).click()
    after = run.edit(placing_edit(other.hidden(3)[2], 3, 5))
    top = lm.tokenizer.piece(int(after.logits[9].argmax())).replace(" ", "·")
    expect(cell(page, 2, 8, 9)).to_have_text(top, timeout=SOON)
    expect(page.locator("[data-part=place_use] h2")).to_contain_text("“·his” after 3 layers, in the place of “·mat”")
    page.locator("[data-part=place_use] .pg-primary").click()
    expect(page.locator("[data-part=edited]")).to_contain_text("“his” after 3 layers placed after layer 2, tokens 5")
    page.locator("[data-part=edited]").get_by_text("Undo").click()
    expect(page.locator("[data-part=edited] .pg-edit")).to_have_count(0)


def test_a_token_is_hidden_by_one_click_and_every_tab_shows_it(open_page, lm):
    page = open_place(open_page)
    page.locator("[data-part=tokens] .pg-chip").nth(1).click()
    page.locator("[data-edits=hide_token]").click()
    line = page.locator("[data-part=edited]")
    expect(line).to_contain_text("“·cat” (1) hidden from the other tokens")
    hidden = lm.trace(CAT).edit(Edit("hide_token", positions="1"))
    share = torch.from_numpy(hidden.logits_at(-1)).softmax(-1).max()  # of the last token, not of the hidden one
    expect(line.locator(".pg-change").first).to_contain_text(f"→ {percent(float(share))}", timeout=SOON)
    cell(page, 1, 2, 1).click()
    expect(page.locator(".pg-place-still")).to_have_count(90 - 7, timeout=SOON)  # what is placed there stays there
    page.locator("[data-part=tokens] .pg-chip").nth(1).click()
    page.locator("[data-edits=hide_token]").get_by_text("Show again").click()
    expect(page.locator("[data-part=edited] .pg-edit")).to_have_count(0)
    page.locator("[data-part=tokens] .pg-chip").nth(1).click()
    page.locator("[data-edits=embed_mean]").click()
    expect(line).to_contain_text("embedding of “·cat” (1) at the mean")
    open_tab(page, "Effects")
    page.locator("#pg-effects_view [data-key=edits]").click()
    form = page.locator("[data-part=edits_editor]")
    form.locator("[data-name=of] select").select_option("token")
    form.locator("[data-name=kind] select").select_option("hide_token")
    form.locator("[data-name=positions] select").select_option("5")
    form.locator(".pg-primary").click()
    expect(line).to_contain_text("“·mat” (5) hidden from the other tokens")


def test_on_a_phone_in_chinese_nothing_overflows(open_page):
    page = open_place(open_page, "?lang=zh", "预测", viewport={"width": 390, "height": 844})
    expect(grid(page, 0)).to_be_visible()
    expect(grid(page, 2)).to_contain_text("放置之后")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
