"""A visitor chooses the better of two texts by keyboard, and a reward model learns from the pairs."""

import re

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_a_visitor_chooses_pairs_by_keyboard_and_trains_a_reward_model(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    open_tab(page, "Assistant")
    page.get_by_role("tab", name="Preferences", exact=True).click()
    desk, cards = page.locator("#pg-preferences_desk [data-part]"), page.locator(".pg-pairs-card")
    page.get_by_label("Tokens of a text").fill("8")
    page.get_by_role("button", name="Write two texts").click()
    for done in range(1, 5):
        expect(cards.first).to_be_enabled(timeout=SOON)
        better = cards.nth(done % 2).locator(".pg-pairs-text").inner_text()
        page.keyboard.press("ArrowRight" if done % 2 else "ArrowLeft")
        expect(desk).to_have_attribute("data-pairs", str(done))
        assert page.locator(".pg-pairs-table textarea").first.input_value() == better
    expect(desk).to_contain_text("4 pairs: 4 by you, 0 by the rule")
    expect(desk).to_contain_text("Of yours the rule would choose", timeout=SOON)
    # Edited, and taken back; another view and back, and they are still there.
    page.get_by_role("button", name="Swap the two texts").first.click()
    assert page.locator(".pg-pairs-table textarea").nth(1).input_value() == better
    page.get_by_role("tab", name="Reward model", exact=True).click()
    choices = page.locator("#pg-reward_model_form select")
    choices.first.select_option("page")
    expect(page.locator("#pg-reward_model_pairs")).to_contain_text("the 4 pairs of this page", timeout=SOON)
    choices.nth(2).select_option("head")
    expect(page.locator("#pg-reward_model_start")).to_contain_text("seconds", timeout=SOON)
    page.get_by_role("button", name="Train the reward model").click()
    facts = page.locator("#pg-reward_model_facts")
    expect(facts).to_contain_text(re.compile(r"\d\s?% of 1 pairs that it did not learn from"), timeout=2 * SOON)
    tokens = page.locator("#pg-reward_model_along .pg-reading-token")
    expect(tokens.first).to_be_visible(timeout=SOON)
    colours = tokens.evaluate_all("all => all.map((token) => getComputedStyle(token).backgroundColor)")
    assert len(colours) == 10 and len(set(colours)) > 1
    expect(page.locator("#pg-reward_model_changes .main-svg").first).to_be_visible(timeout=SOON)
    page.get_by_role("tab", name="Preferences", exact=True).click()
    expect(page.locator(".pg-pairs-table tbody tr")).to_have_count(4)
