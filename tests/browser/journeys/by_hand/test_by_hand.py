"""Numbers of one's own: a changed cell with its marks and formula, a pasted block, a mistake found by keyboard."""

from urllib.parse import quote

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_a_changed_number_marks_what_it_changes_and_a_mistake_is_found_by_keyboard(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    open_tab(page, "By hand")
    steps, desk = page.locator("#pg-hand_attention_steps"), page.locator("#pg-hand_attention_desk")
    scores = steps.locator("[data-step=S] td[data-at]")
    expect(scores.first).to_have_text("0.7", timeout=SOON)
    # One number of K: its column of scores changes, what comes before it does not, and the formula says why.
    desk.locator("[data-table=K][data-row='0'][data-column='0']").fill("0.4")
    expect(scores.first).to_have_text("0.5", timeout=SOON)
    expect(steps.locator("[data-step=S] td.pg-hand-changed")).to_have_count(3)
    scores.first.focus()
    page.keyboard.press("ArrowDown")
    made = steps.locator(".pg-hand-made")
    expect(made).to_be_visible()
    expect(made).to_contain_text("0.3 × 0.4 + 0.9 × 0.7 + 0.5 × 0.5 + 0.3 × 0.3")
    expect(made).to_contain_text("was 0.62, now 0.545")
    expect(desk.locator("input.pg-hand-from")).to_have_count(8)
    assert page.evaluate("playground.state().values.hand_attention_desk.tables.K[0][0]") == "0.4"
    # What is typed into one cell, key by key, is one change.
    cell = desk.locator("[data-table=K][data-row='0'][data-column='0']")
    cell.select_text()
    page.keyboard.type("12", delay=700)
    expect(scores.first).to_have_text("5.14", timeout=SOON)
    scores.first.focus()
    expect(made).to_contain_text("was 0.5, now 5.14")
    # A cell that is no number says so, keeps what was typed, and is mended.
    cell = desk.locator("[data-table=K][data-row='0'][data-column='1']")
    cell.fill("1e400")
    expect(desk.locator(".pg-hand-wrong")).to_contain_text("too large", timeout=SOON)
    expect(cell).to_have_attribute("aria-invalid", "true")
    expect(cell).to_have_value("1e400")
    # A block from a spreadsheet, larger than the table.
    paste = """(cell, text) => {
        const data = new DataTransfer();
        data.setData('text', text);
        cell.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
    }"""
    cell.evaluate(paste, "1\t2\n3")
    expect(desk.locator(".pg-hand-told")).to_contain_text("different lengths")
    expect(cell).to_have_value("1e400")
    desk.locator("[data-table=K][data-row='0'][data-column='0']").evaluate(
        paste, "1\t0\t1\t0\n0\t1\t0\t1\n1\t1\t0\t0\n0\t0\t1\t1"
    )
    expect(steps.locator("[data-step=S] td[data-at]")).to_have_count(16, timeout=SOON)
    expect(desk.locator(".pg-hand-wrong")).to_be_empty()
    # The mistake, with keys alone.
    page.get_by_role("tab", name="Find the mistake", exact=True).click()
    board = page.locator("#pg-hand_mistakes_exercise")
    expect(board.locator("[data-cell='0 0']")).to_be_visible(timeout=SOON)
    board.locator("[data-cell='0 0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    verdict = board.locator(".pg-hand-verdict")
    expect(verdict).to_contain_text("70.68 is correct", timeout=SOON)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(verdict).to_contain_text("78.23 is wrong; the correct value is 76.973", timeout=SOON)
    expect(verdict).to_be_visible()
    expect(board).to_contain_text("found: 1 of 28")
    # It stays found when the page is loaded anew; another exercise, whose mistake is a whole row, is found besides.
    page.reload()
    open_tab(page, "By hand")
    page.get_by_role("tab", name="Find the mistake", exact=True).click()
    expect(board).to_contain_text("found: 1 of 28", timeout=SOON)
    choice = board.locator("select")
    expect(choice.locator("option").first).to_have_text("✓ 1. LayerNorm of six numbers")
    choice.select_option("rejected")
    expect(board.locator("[data-cell='3 2']")).to_contain_text("0.15", timeout=SOON)  # that exercise is drawn
    board.locator("[data-cell='3 2']").click()
    expect(verdict).to_contain_text("0.15 is wrong; the correct value is 0", timeout=SOON)
    expect(board).to_contain_text("found: 2 of 28")


def test_a_link_keeps_an_example_of_a_view_that_is_opened_later(open_page):
    values = quote('{"hand_mlp_desk": {"example": "mlp"}}')
    page = open_page(f"#tab=by_hand&values={values}", ready="#pg-hand_attention_steps [data-step=S]")
    page.locator("#pg-by_hand_view .pg-view[data-key=hand_mlp]").click()
    desk = page.locator("#pg-hand_mlp_desk")
    expect(desk.locator("[data-table=W_1]").first).to_be_visible(timeout=SOON)
    expect(desk.locator("select").first).to_have_value("mlp")
