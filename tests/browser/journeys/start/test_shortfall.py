"""A prompt that the model does not continue: the line that says so, and the model that does, one click away."""

import pytest

from model.loading.sources import available
from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser

STORE = "When Mary and John went to the store, John gave a drink to"
LINE = "#pg-shortfall [data-part]"


def test_an_indirect_object_typed_in_tinygpt_is_opened_in_smollm2(open_page):
    page = open_page("", ready=FIRST)
    expect(page.locator(LINE)).to_be_hidden()
    page.locator("#prompt textarea").fill(STORE)
    line = page.locator(LINE)
    expect(line).to_be_visible(timeout=SOON)
    expect(line).to_contain_text("“Mary” is only number")
    expect(line).to_contain_text("SmolLM2 135M Instruct continues 24 of 24 such prompts correctly.")
    box = line.bounding_box()
    assert box["height"] < 45 and box["y"] + box["height"] < 200  # one line, below the prompt
    if "smollm2-135m" not in available():
        expect(line.get_by_role("button")).to_contain_text("MB to download")
        return
    line.get_by_role("button", name="Open it in SmolLM2 135M Instruct").click()
    expect(page.locator("#pg-header")).to_contain_text("SmolLM2 135M Instruct", timeout=2 * SOON)
    expect(page.locator("#prompt textarea")).to_have_value(STORE)
    expect(page.locator("#pg-start_next .pg-start-bar").first).to_contain_text("Mary", timeout=SOON)
    expect(line).to_be_hidden()
    page.locator("#prompt textarea").fill("What is the capital of France?")
    line.get_by_role("button", name="Ask it in a conversation").click(timeout=SOON)
    expect(page.locator(".pg-chat-turn[data-role=user] textarea")).to_have_value("What is the capital of France?")
    expect(line).to_be_hidden(timeout=SOON)


def test_the_line_is_quiet_for_other_prompts(open_page):
    page = open_page("", ready=FIRST)
    page.locator("#prompt textarea").fill("天上有月亮和星")
    expect(page.locator(LINE)).to_contain_text(
        "TinyGPT continues 0 of 14 prompts of this kind correctly.", timeout=SOON
    )
    expect(page.locator(LINE).get_by_role("button")).to_have_count(0)
    page.locator("#prompt textarea").fill("Once upon a time there was a little")
    expect(page.locator(LINE)).to_be_hidden(timeout=SOON)
