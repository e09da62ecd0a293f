"""A whole way: the better of two texts by keyboard, a reward model from the pairs, PPO on it, a look, and back."""

import json
import re
from urllib.parse import quote

import pytest

from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser
# What stands on the two cards as a key is pressed: a moment before it may have been another pair.
NOTE = """() => document.addEventListener("keydown", () => {
  window.shown = [...document.querySelectorAll(".pg-pairs-text")].map((text) => text.textContent);
}, true)"""


@pytest.fixture(scope="module")
def app_url(tiny_app):
    """An app whose first model is tiny."""
    return tiny_app


def test_from_pairs_chosen_by_keyboard_to_a_model_that_was_rewarded_and_back(open_page):
    short = quote(json.dumps({"assistant_view": {"view": "preferences"}, "preferences_form": {"tokens": 8}}))
    page = open_page(f"#tab=assistant&values={short}", ready="#pg-preferences_desk [data-part][data-drawn]")
    desk, cards = page.locator("#pg-preferences_desk [data-part]"), page.locator(".pg-pairs-card")
    expect(page.locator("#pg-preferences_form").get_by_label("Tokens per text")).to_have_value("8")
    page.evaluate(NOTE)
    page.get_by_role("button", name="Write two texts").click()
    for done in range(1, 11):
        expect(cards.first).to_be_enabled(timeout=SOON)
        page.keyboard.press("ArrowRight" if done % 2 else "ArrowLeft")
        better = page.evaluate("shown")[done % 2].replace("\r", "\n")  # as fields have it
        expect(desk).to_have_attribute("data-pairs", str(done))
        assert page.locator(".pg-pairs-table textarea").first.input_value() == better
    expect(desk).to_contain_text("10 pairs: 10 by you, 0 by the rule")
    expect(desk).to_contain_text("of your choices, disagrees with", timeout=SOON)
    # Edited, and taken back; another view and back, and they are still there.
    page.get_by_role("button", name="Swap the two texts").first.click()
    assert page.locator(".pg-pairs-table textarea").nth(1).input_value() == better
    page.get_by_role("tab", name="Reward model", exact=True).click()
    choices = page.locator("#pg-reward_model_form select")
    choices.first.select_option("page")
    expect(page.locator("#pg-reward_model_pairs")).to_contain_text("the 10 pairs of this page", timeout=SOON)
    choices.nth(2).select_option("head")
    expect(page.locator("#pg-reward_model_start")).to_contain_text("seconds", timeout=SOON)
    page.get_by_role("button", name="Train the reward model").click()
    facts = page.locator("#pg-reward_model_facts")
    expect(facts).to_contain_text(re.compile(r"\d\s?% of \d held-out pairs"), timeout=2 * SOON)
    expect(page.locator(".pg-stored-note:visible")).to_have_count(0)
    page.locator(".pg-more-button:visible").click()
    tokens = page.locator("#pg-reward_model_along .pg-reading-token")
    expect(tokens.first).to_be_visible(timeout=SOON)
    colors = tokens.evaluate_all("all => all.map((token) => getComputedStyle(token).backgroundColor)")
    assert "".join(tokens.all_text_contents()).replace("·", " ") == page.locator("#prompt textarea").input_value()
    assert len(set(colors)) > 1
    expect(page.locator("#pg-reward_model_changes .main-svg").first).to_be_visible(timeout=SOON)
    page.get_by_role("tab", name="Preferences", exact=True).click()
    expect(page.locator(".pg-pairs-table tbody tr")).to_have_count(10)
    # PPO on what the reward model says, and the model before and after it.
    page.get_by_role("tab", name="Reinforce", exact=True).click()
    form, live = page.locator("#pg-reinforcement_form"), page.locator("#pg-reinforcement_live")
    form.locator("[data-name=preset] select").select_option("trained")
    form.get_by_label("More settings").check()
    form.locator("[data-name=weights] select").select_option("lora")
    small = {"Updates": "1", "Texts per update": "4", "Texts per prompt": "2", "Tokens per text": "4"}
    for label, value in small.items():
        form.get_by_label(label, exact=True).fill(value)
    expect(live).to_contain_text("Stored run of TinyGPT", timeout=SOON)
    page.wait_for_timeout(500)  # what was typed is sent after a pause
    live.get_by_role("button", name="Start", exact=True).click()
    expect(live.locator(".pg-train-line")).to_contain_text("Done", timeout=3 * SOON)
    expect(live.locator(".pg-train-status")).to_contain_text("LoRA r = 8")
    live.locator(".pg-more-fold > summary").click()
    for name in ("curves", "tradeoff", "heads", "tokens"):
        expect(live.locator(f".pg-practice-{name} .main-svg").first).to_be_visible(timeout=SOON)
    expect(live.locator(".pg-practice-watched tbody tr")).to_have_count(4)
    for link in ("Download the model", "Download the adapter"):
        expect(live.get_by_role("link", name=link)).to_be_visible()
    # One click: the rewarded model is run A, the one from before run B, on the text that was watched.
    live.get_by_role("button", name="Compare with the model before").click()
    expect(page.locator(".pg-nav [data-tab=compare]")).to_have_attribute("aria-current", "page", timeout=SOON)
    expect(page.locator("#model input")).to_have_value(re.compile("PPO, 1 steps"), timeout=SOON)
    expect(page.locator("#pg-run_b [data-name=model] option:checked")).to_have_text(re.compile("^tiny"), timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("^Once upon a time"))
    expect(page.locator("#pg-runs_alignment")).to_contain_text("replaced: 0", timeout=SOON)
    expect(page.locator("#pg-runs_b .main-svg").first).to_be_visible(timeout=SOON)
    page.evaluate("location.hash = '#tab=assistant'")  # undone: the model as it was, and the pairs are still there
    page.wait_for_function("() => playground.page.shown.model.startsWith('local:')", timeout=SOON)
    expect(page.locator(".pg-nav [data-tab=assistant]")).to_have_attribute("aria-current", "page", timeout=SOON)
    page.get_by_role("tab", name="Preferences", exact=True).click()
    expect(page.locator(".pg-pairs-table tbody tr")).to_have_count(10)
