"""A visitor lets the model learn from a reward, watches it, and sees it beside the model from before."""

import re

import pytest

from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app_url(tiny_app):
    """An app whose first model is tiny."""
    return tiny_app


def test_a_visitor_reinforces_the_model_and_compares_it_with_the_one_before(open_page):
    page = open_page("#tab=assistant", ready="#pg-assistant_view [data-key=reinforcement]")
    page.locator("#pg-assistant_view button[data-key=reinforcement]").click()
    form, live = page.locator("#pg-reinforcement_form"), page.locator("#pg-reinforcement_live")
    form.get_by_label("More settings").check()
    form.locator("[data-name=weights] select").select_option("lora")
    small = {"Updates": "1", "Texts an update": "4", "Texts of one prompt": "2", "Tokens a text": "6"}
    for label, value in small.items():
        form.get_by_label(label, exact=True).fill(value)
    expect(live).to_contain_text("Nothing has been run", timeout=SOON)
    page.wait_for_timeout(500)  # the form tells what is typed after a pause
    live.get_by_role("button", name="Start", exact=True).click()
    expect(live.locator(".pg-train-line")).to_contain_text("Done", timeout=3 * SOON)
    expect(live.locator(".pg-train-status")).to_contain_text("LoRA r = 8")
    for name in ("curves", "tradeoff", "heads", "tokens"):
        expect(live.locator(f".pg-practice-{name} .main-svg").first).to_be_visible(timeout=SOON)
    expect(live.locator(".pg-practice-watched tbody tr")).to_have_count(4)
    for link in ("Download the model", "Download the adapter"):
        expect(live.get_by_role("link", name=link)).to_be_visible()
    live.get_by_role("button", name="Compare with the model before").click()
    # One click: the rewarded model is run A, the one from before run B, on the text that was watched.
    expect(page.locator(".pg-nav [data-tab=compare]")).to_have_attribute("aria-current", "page", timeout=SOON)
    expect(page.locator("#model input")).to_have_value(re.compile("PPO, 1 steps"), timeout=SOON)
    expect(page.locator("#pg-run_b [data-name=model] select")).to_be_visible(timeout=SOON)
    expect(page.locator("#pg-run_b [data-name=model] option:checked")).to_have_text(re.compile("^tiny"))
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("^Once upon a time"))
    expect(page.locator("#pg-runs_alignment")).to_contain_text("replaced: 0", timeout=SOON)
    expect(page.locator("#pg-runs_b .main-svg").first).to_be_visible(timeout=SOON)
