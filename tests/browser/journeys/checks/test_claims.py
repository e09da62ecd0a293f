"""The claims as a visitor uses them: pick one by mouse and keyboard, filter by verdict, and test one here."""

import pytest

from model.claims.registry import CLAIMS, GROUPS
from tests.support.visitor import SOON, expect, open_view

pytestmark = pytest.mark.browser
CLAIM = "#pg-claims_list .pg-claim"
VERDICT = "#pg-claims_numbers .pg-lab-verdict strong"


def open_claims(page, tab="Checks"):
    open_view(page, tab, "claims")
    expect(page.locator(CLAIM)).to_have_count(len(CLAIMS), timeout=SOON)


def test_claims_from_the_stored_verdicts_to_a_test_of_ones_own(open_page):
    page = open_page()
    open_claims(page)
    title, figure = page.locator("#pg-claims_figure h2"), page.locator("#pg-claims_figure .js-plotly-plot")
    expect(title).to_have_text("The first token gets most of the attention.")
    expect(figure).to_be_visible(timeout=SOON)
    assert figure.bounding_box()["y"] < 400  # on the first screen
    expect(page.locator("#pg-claims_list h3")).to_have_count(len(GROUPS))
    # Arrows walk the list, Enter chooses.
    page.locator(f'{CLAIM}[aria-pressed="true"]').press("ArrowDown")
    page.keyboard.press("Enter")
    expect(title).to_have_text("Most attention goes to the previous token.", timeout=SOON)
    expect(page.locator(f'{CLAIM}[aria-pressed="true"]')).to_have_attribute("data-key", "previous")
    # A filter leaves the claims of one verdict, as many as its button says.
    button = page.locator(".pg-claim-filter", has_text="true here")
    n = int(button.locator("small").inner_text())
    assert 0 < n < len(CLAIMS)
    button.click()
    expect(page.locator(CLAIM)).to_have_count(n)
    expect(page.locator(f"{CLAIM} .pg-claim-verdict:nth-child(2)[data-state=true]")).to_have_count(n)
    page.locator(".pg-claim-filter").first.click()
    # The chosen claim can be tested here; the number is the stored one, measured anew.
    page.locator(f'{CLAIM}[data-key="top_half"]').click()
    verdict, numbers = page.locator(VERDICT), page.locator("#pg-claims_numbers")
    expect(verdict).to_contain_text("texts fit", timeout=SOON)
    expect(numbers).to_contain_text("stored result")
    page.locator("#pg-claims_one button").click()
    expect(page.locator("#pg-claims_one [data-part]")).to_have_attribute("data-state", "done", timeout=4 * SOON)
    expect(numbers).not_to_contain_text("stored result", timeout=SOON)
    expect(verdict).to_be_visible()
    expect(verdict).to_have_text("False here: 30.9% [30.4%, 31.4%]; 0% of 200 texts fit.")


def test_on_a_phone_in_chinese(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_claims(page, "核对")
    verdict = page.locator(VERDICT)
    expect(verdict).to_contain_text("在此不成立", timeout=SOON)
    page.locator(f'{CLAIM}[data-key="repeat"]').click()
    expect(page.locator("#pg-claims_figure h2")).to_have_text("同一段文本，第二遍容易得多。", timeout=SOON)
    expect(verdict).to_contain_text("在此", timeout=SOON)
    expect(verdict).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
