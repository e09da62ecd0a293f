"""The training of a reward model goes on while its page reloads."""

import re

import pytest

from tests.support.visitor import SOON, expect, open_view
from viz.words import words

pytestmark = [pytest.mark.browser, pytest.mark.long]

WORDS = words("en")
LONG = 11_000  # milliseconds; a shorter job is not kept


def share(page) -> float:
    """The progress of the job, from 0 to 1."""
    return page.locator("#pg-reward_model_start progress").evaluate("(bar) => bar.position")


def test_a_reward_model_in_training_survives_a_reload_and_can_be_cancelled(open_page):
    page = open_page()
    open_view(page, WORDS["tab.assistant"], "reward_model")
    part = page.locator("#pg-reward_model_start")
    part.get_by_role("button", name=WORDS["reward_model.start.start"]).click()
    expect(part.locator("progress[value]")).to_be_visible(timeout=SOON)
    page.wait_for_timeout(LONG)
    before = share(page)
    page.evaluate("() => { playground.page.leaving = true; location.reload(); }")  # as after a question
    page.wait_for_function("() => window.playground && !playground.page.leaving", timeout=SOON)
    open_view(page, WORDS["tab.assistant"], "reward_model")
    expect(part.locator("progress[value]")).to_be_visible(timeout=SOON)
    assert share(page) >= before > 0
    part.get_by_role("button", name=WORDS["job.cancel"]).click()
    expect(part).to_contain_text(re.compile(re.escape(WORDS["job.cancelled"])))
    expect(part.locator("progress")).to_be_hidden()
