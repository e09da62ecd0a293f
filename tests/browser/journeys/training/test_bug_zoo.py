"""The bug zoo as a visitor uses it: stored curves and cards at once, a training that is cancelled, a short one."""

import pytest

from model.training.bug_zoo import BUGS, ZooTrial, learn
from tests.support.visitor import SOON, expect, open_view
from viz.numbers import nats

pytestmark = pytest.mark.browser
STEPS = 5  # as in tests/support/training/short_zoo.py
CARD = "#pg-bug_zoo_cards .pg-bug-card"
JOB = "#pg-bug_zoo_start"


@pytest.fixture(scope="module")
def app_url(start_app):
    """An app whose zoo trains for a few steps only, whatever is chosen."""
    return start_app("--offline", imports=("tests.support.training.short_zoo",))


def open_zoo(page, tab="Training"):
    open_view(page, tab, "bug_zoo")
    expect(page.locator(CARD)).to_have_count(len(BUGS), timeout=SOON)


def test_the_stored_zoo_and_a_short_one(open_page):
    page = open_page()
    open_zoo(page)
    names = page.locator(f"{CARD} h3").all_inner_texts()
    cards = {bug: page.locator(CARD).nth(n) for n, bug in enumerate(BUGS)}
    assert names[:2] == ["No bug", "No causal mask"]
    expect(page.locator("#pg-bug_zoo_curves .main-svg").first).to_be_in_viewport(timeout=SOON)
    # The stored result: without a mask or a shift the reported loss is far below the true one.
    for bug in ("no_mask", "no_shift"):
        expect(cards[bug].locator(".pg-bug-verdict")).to_contain_text("on new text")
        reported, true = (float(cards[bug].locator("dd").nth(n).inner_text().split(" ")[0]) for n in (0, 1))
        assert true > 5 and (reported < 0.2 or "10⁻" in cards[bug].locator("dd").first.inner_text())
    expect(cards["no_mask"].locator(".pg-bug-wrong")).to_contain_text("pattern = scores.softmax(-1)")
    expect(cards["no_mask"].locator(".pg-bug-wrong")).to_be_visible()
    # A training of one's own: the numbers of every card are those of the same training elsewhere.
    page.locator("#pg-bug_zoo_form select").select_option("200")
    page.locator(f"{JOB} button").click()
    expect(page.locator(f"{JOB} [data-part]")).to_have_attribute("data-state", "done", timeout=SOON)
    for bug in ("correct", "no_shift"):
        run = learn(ZooTrial(STEPS), bug)
        expect(cards[bug].locator("dd").nth(0)).to_have_text(nats(run.reported), timeout=SOON)
        expect(cards[bug].locator("dd").nth(1)).to_have_text(nats(run.true))
    expect(page.locator("#pg-bug_zoo_cards")).not_to_contain_text("stored result")


def test_on_a_phone_in_chinese(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_zoo(page, "训练")
    expect(page.locator(CARD).nth(1)).to_contain_text("没有因果掩码")
    expect(page.locator(CARD).nth(1).locator(".pg-bug-verdict")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
