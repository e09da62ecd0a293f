"""Only what fits: a rule is chosen, the text under it is explained, and a mistake is named where it is."""

import json
import re

import pytest

from tests.support.visitor import SOON, expect, open_tab
from viz.words import words

pytestmark = pytest.mark.browser

WORDS = words("en")
RULE = "#pg-distribution_rule"


def with_rule(open_page, example: str = "", query: str = "", catalogue=WORDS, **context):
    page = open_page(query, **context)
    page.wait_for_timeout(300)
    open_tab(page, catalogue["tab.sampling"])
    page.locator("#pg-distribution_bars [data-run]").wait_for(timeout=SOON)
    expect(page.locator(f"{RULE} table")).to_have_count(0)
    page.locator("#pg-pipeline .pg-pipe-add").select_option("fits")
    if example:
        page.locator(".pg-rule select").nth(1).select_option(label=catalogue[f"rule.example_{example}"])
    expect(page.locator(f"{RULE} table")).to_be_visible(timeout=SOON)
    return page


def test_a_rule_goes_first_and_every_token_is_explained(open_page):
    page = with_rule(open_page)
    expect(page.locator("#pg-pipeline .pg-pipe-step").first).to_have_attribute("data-warp", "fits")
    said = page.locator(f"{RULE} .pg-lab-verdict")
    expect(said).to_contain_text(WORDS["distribution.rule.ended_complete"])
    expect(page.locator(f"{RULE} tbody tr").first).to_be_visible()
    assert re.search("·(yes|no)", said.inner_text())


def test_a_json_object_is_written_by_the_small_model(open_page):
    page = with_rule(open_page, "person")
    said = page.locator(f"{RULE} .pg-lab-verdict strong")
    expect(said).to_contain_text('{"name": "', timeout=SOON)
    written = json.loads(re.search(r"\{.*\}", said.inner_text())[0])
    assert re.fullmatch("[A-Z][a-z]{2,7}", written["name"]) and 1 <= written["age"] <= 99
    expect(page.locator(f"{RULE} tbody").get_by_text(WORDS["distribution.rule.forced"]).first).to_be_visible()


def test_a_mistake_is_named_where_it_is_and_can_be_mended(open_page):
    page = with_rule(open_page, "date")
    field = page.locator(".pg-rule textarea")
    field.fill("[0-9")
    expect(page.locator("#pg-distribution_facts")).to_contain_text("character 1", timeout=SOON)
    field.fill("[0-9]{2}")
    expect(page.locator(f"{RULE} .pg-lab-verdict")).to_contain_text(
        WORDS["distribution.rule.ended_complete"], timeout=SOON
    )


def test_two_rules_have_a_column_each_and_their_masses_are_told_apart(open_page):
    page = with_rule(open_page, "date")
    expect(page.locator(f"{RULE} thead")).not_to_contain_text(WORDS["distribution.rule.column_rule"].format(step=2))
    page.locator("#pg-pipeline .pg-pipe-add").select_option("fits")
    expect(page.locator("#pg-pipeline .pg-pipe-step[data-warp=fits]")).to_have_count(2)
    for step in (1, 2):
        column = page.locator(f"{RULE} thead").get_by_text(WORDS["distribution.rule.column_rule"].format(step=step))
        expect(column).to_be_visible(timeout=SOON)
    said = page.locator(f"{RULE} .pg-lab-verdict")
    expect(said).to_contain_text(WORDS["distribution.rule.ended_apart"], timeout=SOON)  # the new one wants yes or no
    page.locator(".pg-rule select").nth(1).select_option(label=WORDS["rule.example_date"])
    page.locator(".pg-rule textarea").first.fill(" 19[0-9]{2}-[0-9]+-[0-9]+")
    expect(said).to_contain_text(re.compile("19[0-9]{2}-[0-9]{2}-[0-9]{2}"), timeout=SOON)


def test_in_chinese_on_a_telephone_nothing_overflows(open_page):
    page = with_rule(open_page, "numbers", "?lang=zh", words("zh"), viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator(RULE)).to_contain_text(words("zh")["distribution.rule.title"])


def test_with_and_without_a_rule_side_by_side(open_page):
    page = open_page()
    page.wait_for_timeout(300)
    open_tab(page, "Sampling")
    page.locator(".pg-view:visible[data-key=side_by_side]").click()
    page.get_by_role("button", name=WORDS["strategies.compare_rule"]).click()
    expect(page.locator(".pg-strat")).to_have_count(2)
    page.locator("#pg-side_by_side_texts button").filter(has_text=WORDS["side_by_side.texts.start"]).first.click()
    row = page.locator(".pg-race-row").first
    expect(row).to_contain_text(WORDS["side_by_side.texts.ended_end"], timeout=SOON)
    expect(row.locator(".pg-race-forced").first).to_be_visible()
    row.locator(".pg-reading-token").nth(1).click()
    expect(page.locator(".pg-race-rule")).to_be_visible()
    expect(page.locator(".pg-race-rule")).to_contain_text("%")
