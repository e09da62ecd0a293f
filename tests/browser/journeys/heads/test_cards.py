"""The cards of named heads, as a visitor meets them: there on arrival, by name, and each head can be switched off."""

import pytest

from tests.support import visitor
from tests.support.visitor import SOON, expect, exported_rows

pytestmark = pytest.mark.browser

CARDS = "#pg-heads_cards .pg-head-card"
GROUPS = "#pg-heads_cards .pg-card-group"
FILTERS = "#pg-heads_cards .pg-card-names button"
ROWS = "#pg-heads_table tbody tr"


@pytest.fixture
def page(same_page):
    page = same_page()
    visitor.open_tab(page, "Heads")
    expect(page.locator(CARDS).first).to_be_visible(timeout=SOON)
    page.evaluate("playground.select({ heads: [[4, 1]], tokens: [], edits: [] })")
    page.locator(FILTERS).first.click()
    return page


def test_on_arrival_the_cards_stand_on_the_first_screen_by_name(page):
    """Nothing was pressed: the names are stored with the model."""
    page.set_viewport_size({"width": 1280, "height": 800})
    first = page.locator(CARDS).first.bounding_box()
    assert first["y"] < 400 and first["height"] > 60
    names = [group.get_attribute("data-name") for group in page.locator(GROUPS).all()]
    assert names == ["induction", "previous_token", "self", "first_token"]
    for group in page.locator(GROUPS).all():
        expect(group.locator(".pg-card-about .pg-muted")).to_contain_text("Attends to")
        scores = [float(text.split()[0]) for text in group.locator(".pg-card-evidence").all_inner_texts()]
        assert scores == sorted(scores, reverse=True) and 3 <= len(scores) <= 5
        for example in group.locator(".pg-card-example").all():
            assert example.locator(".pg-card-query").count() == 1 and example.locator(".pg-card-key").count() >= 1
            assert example.inner_text().rstrip().endswith("%")
    induction = page.locator(CARDS).first
    expect(induction).to_contain_text("baseline")
    expect(induction.locator(".pg-card-head")).to_have_text("7.3")
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text("repeated random tokens")  # the probe set
    expect(page.locator(f"{ROWS} .pg-names").first).to_contain_text("induction")  # by name, as the cards


def test_a_head_that_is_switched_off_on_its_card_is_off_in_the_run_and_marked(page):
    card = page.locator(CARDS).first
    expect(card.locator(".pg-card-off")).to_be_hidden()
    card.get_by_role("button", name="Switch off: Head 7.3").click()
    expect(page.locator("#pg-edited")).to_contain_text("head 7.3 off")
    expect(card.locator(".pg-card-off")).to_be_visible()
    expect(card.locator(".pg-card-switch")).to_have_text("Switch on")
    expect(page.locator(".pg-head-card.pg-head-off")).to_have_count(1)
    expect(page.locator(CARDS).first.locator(".pg-card-head")).to_have_text("7.3")  # in the same place
    card.locator(".pg-card-switch").click()
    expect(page.locator("#pg-edited")).not_to_contain_text("head 7.3 off")
    expect(card.locator(".pg-card-off")).to_be_hidden()


def test_a_name_filters_the_cards_and_the_table_and_all_its_heads_can_be_shown(page):
    page.locator(f"{FILTERS}[data-name=induction]").click()
    expect(page.locator(GROUPS)).to_have_count(1)
    expect(page.locator("#pg-heads_table select[name=name]")).to_have_value("induction")
    expect(page.locator(ROWS)).to_have_count(10)
    expect(page.locator(CARDS)).to_have_count(4)
    page.get_by_role("button", name="Show all 10").click()
    expect(page.locator(CARDS)).to_have_count(10)
    page.get_by_role("button", name="Show fewer").click()
    page.locator("#pg-heads_table select[name=name]").select_option("self")
    expect(page.locator(f"{FILTERS}[aria-pressed=true]")).to_contain_text("self")
    expect(page.locator(CARDS)).to_have_count(3)
    page.locator(FILTERS).first.click()
    expect(page.locator(GROUPS)).to_have_count(4)
    expect(page.locator(ROWS)).to_have_count(64)


def test_a_click_on_a_card_selects_its_head_and_the_file_has_every_name(page):
    page.locator(CARDS).first.locator(".pg-card-head").click()
    expect(page.locator("#pg-selection .pg-selected").first).to_contain_text("head 7.3")
    expect(page.locator(f"{CARDS}.pg-picked").first.locator(".pg-card-head")).to_have_text("7.3")
    expect(page.locator("#pg-heads_composition h2")).to_contain_text("head 7.3", timeout=SOON)
    names, *rows = exported_rows(page.locator("#pg-heads_cards"))
    assert names[:6] == ["layer", "head", "name", "score", "two_standard_errors", "baseline"]
    assert len(rows) == 24 and rows[0][:3] == ["7", "3", "induction"] and float(rows[0][-1]) > 0.9


def test_names_stand_in_the_lists_of_other_tabs_on_arrival(open_page):
    page = open_page()
    expect(page.locator("#pg-selection .pg-head-names")).to_contain_text("previous token", timeout=SOON)


def test_on_a_phone_each_name_is_one_row_that_scrolls(open_page):
    page = open_page("#tab=heads", viewport={"width": 390, "height": 844}, ready=f"{GROUPS}:first-child")
    look = "row => [row.scrollWidth > row.clientWidth, row.clientHeight]"
    rows = page.evaluate(f"[...document.querySelectorAll('.pg-card-row')].map({look})")
    assert [wider for wider, _ in rows] == [True] * 4 and max(height for _, height in rows) < 160
    assert page.evaluate("document.documentElement.scrollWidth") == 390
