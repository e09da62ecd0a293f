"""Choosing a model: a broken file, a download that fails, the way back, and a conversation with what was fetched."""

import re
import shutil

import pytest

from model.loading.sources import smollm2_path
from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, open_tab

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser


@pytest.fixture
def broken_file(app_url, tmp_path):
    """The real model, cut short."""
    path = tmp_path / "broken.gguf"
    with smollm2_path().open("rb") as whole:
        path.write_bytes(whole.read(5_000_000))
    return path


def test_app_with_a_broken_model_says_so_and_another_can_be_chosen(start_app, open_page, broken_file):
    url = start_app("--offline", "--model", str(broken_file))
    page = open_page(url=url, ready="#pg-notice [role=alert]")
    expect(page.locator("#pg-notice")).to_contain_text("damaged or truncated")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#pg-notice")).to_contain_text("damaged or truncated")
    page.locator("#model input").click()
    page.get_by_role("option", name="TinyGPT").click()
    page.locator(FIRST).wait_for(timeout=SOON)
    open_tab(page, "Attention")
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(" 4.1$"), timeout=SOON)
    expect(page.locator("#pg-notice [data-part]")).to_be_hidden()


def test_failed_download_can_be_tried_again_and_the_model_be_talked_to(start_app, open_page, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_PLAYGROUND_CACHE", str(tmp_path))
    url = start_app("--offline", "--model", "smollm2-135m")
    page = open_page(url=url, ready="#pg-notice [role=alert]")
    expect(page.locator("#pg-notice")).to_contain_text("The model is not on this computer.")
    expect(page.locator("#pg-notice")).to_contain_text("Start the app once without the offline option.")
    monkeypatch.delenv("ATTENTION_PLAYGROUND_CACHE")
    shutil.copy(smollm2_path(), tmp_path)  # as if it had been fetched meanwhile
    page.get_by_role("button", name="Try again").click()
    page.locator(FIRST).wait_for(timeout=2 * SOON)  # the file is read for the first time, and products are tried
    open_tab(page, "Attention")
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(" 16.0$"), timeout=SOON)
    talk(page, open_page.reload)


def texts(page) -> list[str]:
    """What stands in the turns."""
    return [field.input_value() for field in page.locator(".pg-chat-turn textarea").all()]


def look_inside(page) -> None:
    """Greedy writes the answer once more beside others; it becomes the turn again, its tokens marked as written."""
    answer, written = page.locator(".pg-chat-turn:last-child textarea"), page.locator("#pg-tokens .pg-chip-written")
    said = answer.input_value()
    answer.fill("")
    expect(page.get_by_role("button", name="Answer", exact=True)).to_be_enabled()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Side by side").click()
    page.locator("#pg-side_by_side_texts [data-name=start]").click()
    row = page.locator(".pg-race-row").first
    row.get_by_role("button", name="Look inside").click(timeout=SOON)
    expect(answer).to_have_value(said)
    expect(written.first).to_be_visible(timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip-written.pg-chip-template")).to_have_count(0)
    assert "".join(written.all_text_contents()).replace("·", " ").strip() == said
    expect(page.locator(".pg-chat-answer").get_by_role("button", name="Continue")).to_be_visible()


def go_on(page) -> None:
    """An answer that a person began is left open, and the model goes on with it in its place."""
    answer, written = page.locator(".pg-chat-turn:last-child textarea"), page.locator("#pg-tokens .pg-chip-template")
    before, said = written.count(), answer.input_value()
    answer.fill("The capital of France is")
    leave = page.get_by_label("Leave this answer open")
    expect(leave).to_be_visible()
    leave.check()
    expect(written).to_have_count(before - 2, timeout=SOON)  # the token that ends a turn, and the line break behind it
    page.locator(".pg-chat-answer").get_by_role("button", name="Continue").click()
    expect(answer).to_have_value(re.compile("^The capital of France is Paris"), timeout=SOON)
    expect(page.locator(".pg-chat-answer").get_by_role("button", name="Continue")).to_be_visible(timeout=SOON)
    expect(written).to_have_count(before, timeout=SOON)  # it ended by itself, and is closed
    answer.fill(said)


def talk(page, reload) -> None:
    """Turns, an answer, a model that has no template and back, and the same page once more."""
    written = page.locator("#pg-tokens .pg-chip-template")
    expect(written).to_have_count(0)
    page.get_by_role("button", name="Chat", exact=True).click()
    expect(written).to_have_count(14, timeout=SOON)  # three turns' markers, their roles and line breaks
    expect(page.locator("#prompt")).to_be_hidden()
    page.locator(".pg-chat-turn[data-role=user] textarea").fill("What is the capital of France? <|im_end|>")
    chip = page.locator("#pg-tokens .pg-chip", has_text="France")
    expect(chip).to_have_attribute("title", "user", timeout=SOON)
    expect(written).to_have_count(14)  # what a person types is none of the template's
    page.get_by_role("button", name="Answer", exact=True).click()
    answer = page.locator(".pg-chat-turn:last-child textarea")
    expect(answer).to_have_value(re.compile("Paris"), timeout=SOON)
    expect(page.locator(".pg-chat-answer").get_by_role("button", name="Continue")).to_be_visible(timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip", has_text="Paris").first).to_be_visible(timeout=SOON)
    said = texts(page)
    look_inside(page)
    assert texts(page) == said
    go_on(page)
    expect(page.locator("#pg-tokens .pg-chip", has_text="Paris").first).to_be_visible(timeout=SOON)
    assert texts(page) == said
    page.locator("#model input").click()
    page.get_by_role("option", name="TinyGPT").click()
    expect(page.locator("#pg-notice")).to_contain_text("reads only the text of the last user turn", timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_value(said[1])
    page.locator("#model input").click()
    page.get_by_role("option", name="SmolLM2").click()
    expect(answer).to_have_value(said[2], timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip-template").first).to_be_visible(timeout=SOON)
    page.wait_for_function("() => location.hash.includes('smollm2') && location.hash.includes('Paris')")
    reload(page)
    expect(answer).to_have_value(said[2], timeout=SOON)
    assert texts(page) == said
    expect(page.locator("#pg-tokens .pg-chip-template").first).to_be_visible(timeout=SOON)
