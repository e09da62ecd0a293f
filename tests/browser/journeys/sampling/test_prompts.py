"""The same questions are asked in several ways, as a visitor does it."""

import pytest

from model.api import load_model
from model.prompting.prompts import Shots
from model.prompting.question_sets import question_set
from model.prompting.trial import Variant, trial
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_examples_help_where_they_hold_the_answer(open_page, start_app):
    page = open_page("?lang=en", url=start_app("--offline"))  # in another one a lesson may have asked them already
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Prompts as programs", exact=True).click()
    job = page.locator("#pg-prompts_job")
    expect(job).to_contain_text("32 questions", timeout=SOON)
    job.get_by_role("button", name="Ask the questions").click()
    rows = page.locator("#pg-prompts_compare tbody tr")
    expect(rows).to_have_count(3, timeout=SOON)
    # What the notes promise happens on the default model.
    variants = [Variant("zero", Shots(0)), Variant("few", Shots(8)), Variant("few", Shots(8, 0, True))]
    found = trial(load_model("tinygpt", offline=True), question_set("pairs"), variants)
    for at, row in enumerate(found):
        expect(rows.nth(at)).to_contain_text(f"{sum(row.right)} / 32")
    zero, few, shuffled = (row.share for row in found)
    assert few > 0.7 and zero < 0.3 and shuffled < 0.1
    expect(rows.nth(1)).to_contain_text("better than the first")
    expect(page.locator("#pg-prompts_facts")).to_contain_text("helps")
    page.locator("#pg-prompts_accuracies .main-svg").first.wait_for(timeout=SOON)
    # A question opens on its prompt; another way of asking is listed.
    listed = page.locator("#pg-prompts_list")
    listed.locator("select").select_option("few")
    expect(listed.locator("li.pg-prompts-right")).to_have_count(sum(found[1].right), timeout=SOON)
    first = listed.locator("li").first
    first.locator("summary").click()
    expect(first.locator("pre").first).to_have_text(found[1].answers[0].prompt)
    # Accuracy against the number of examples.
    curve = page.locator("#pg-prompts_curve_job")
    curve.get_by_role("button", name="Vary the number of examples").click()
    page.locator("#pg-prompts_curve .main-svg").first.wait_for(timeout=SOON)
    # Other questions: an example stands there until they are asked.
    page.locator("#pg-prompts_form select").first.select_option("pronouns")
    expect(page.locator("#pg-prompts_compare [data-example]")).to_be_visible(timeout=SOON)
    expect(job).to_contain_text("He or She")
