"""A visitor lets the model learn from a reward, watches it, and compares what came of it."""

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_a_visitor_reinforces_the_model_and_opens_the_result(open_page):
    page = open_page("", viewport={"width": 1280, "height": 900})
    open_tab(page, "Assistant")
    page.locator("#pg-assistant_view button[data-key=reinforcement]").click()
    form, live = page.locator("#pg-reinforcement_form"), page.locator("#pg-reinforcement_live")
    form.get_by_label("More settings").check()
    for label, value in (
        ("Updates", "1"),
        ("Texts an update", "8"),
        ("Texts of one prompt", "4"),
        ("Tokens a text", "6"),
    ):
        form.get_by_label(label, exact=True).fill(value)
    expect(live).to_contain_text("Nothing has been run", timeout=SOON)
    page.wait_for_timeout(500)  # the form tells what is typed after a pause
    live.get_by_role("button", name="Start", exact=True).click()
    expect(live.locator(".pg-train-line")).to_contain_text("Done", timeout=3 * SOON)
    for name in ("curves", "tradeoff", "heads", "tokens"):
        expect(live.locator(f".pg-practice-{name} .main-svg").first).to_be_visible(timeout=SOON)
    expect(live.locator(".pg-practice-watched tbody tr")).to_have_count(4)
    expect(live.get_by_role("link", name="Download the model")).to_be_visible()
    live.get_by_role("button", name="Compare it with another model").click()
    expect(page.locator(".pg-nav [data-tab=compare]")).to_have_attribute("aria-current", "page", timeout=SOON)
    expect(page.locator("#pg-compare_view")).to_be_visible()
