"""Choosing a model: a broken file, a download that is cancelled or fails, and the way back."""

import re
import shutil

import pytest

from model.loading.sources import smollm2_path

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
    expect(page.locator("#pg-notice")).to_contain_text("broken or cut short")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#pg-notice")).to_contain_text("broken or cut short")
    page.locator("#model input").click()
    page.get_by_role("option", name="TinyGPT").click()
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(" 4.1$"), timeout=30_000)
    expect(page.locator("#pg-notice [data-part]")).to_be_hidden()


def test_failed_download_can_be_tried_again(start_app, open_page, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_PLAYGROUND_CACHE", str(tmp_path))
    url = start_app("--offline", "--model", "smollm2-135m")
    page = open_page(url=url, ready="#pg-notice [role=alert]")
    expect(page.locator("#pg-notice")).to_contain_text("The model is not on this computer.")
    expect(page.locator("#pg-notice")).to_contain_text("Start once without the offline option.")
    monkeypatch.delenv("ATTENTION_PLAYGROUND_CACHE")
    shutil.copy(smollm2_path(), tmp_path)  # as if it had been fetched meanwhile
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(" 16.0$"), timeout=30_000)
