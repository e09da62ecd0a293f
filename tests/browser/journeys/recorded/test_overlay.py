"""Journeys to the viewer of attention arrays over the page: dropped, from the menu, by a name, and what is refused."""

import base64

import numpy as np
import pytest

from model.errors import InputError
from tests.support.visitor import SOON, expect
from viz.show_attention import show_attention
from viz.words import section, words

pytestmark = pytest.mark.browser
WORDS = section(words("en"), "header")
OVER = ".pg-viewer-over"
DROP = """([base64, name]) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)), dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], name));
  const event = (kind) => new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true });
  document.querySelector("#pg-nav").dispatchEvent(event("dragover"));
  document.querySelector("#pg-nav").dispatchEvent(event("drop"));
}"""

DRAG = """(kind) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([], "x.npz"));
  document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def files(tmp_path):
    """A file of attention, and one whose rows do not sum to 1."""
    good = np.tri(4) / np.tri(4).sum(1, keepdims=True) * np.ones((2, 3, 1, 1))
    found = {}
    for name, attention in (("good", good), ("bad", good * 2)):
        found[name] = tmp_path / f"{name}.npz"
        np.savez(found[name], attention=attention.astype(np.float32), tokens=np.array(["a", " b", " c", "."]))
    return found


def drop(page, path) -> None:
    page.evaluate(DROP, [base64.b64encode(path.read_bytes()).decode(), path.name])


def asked(page) -> list[str]:
    return page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")


def test_a_dropped_file_opens_over_the_page_and_escape_closes_it(open_page, files):
    page = open_page()
    assert not any("/viewer/" in name for name in asked(page))  # nothing of it before it is needed
    drop(page, files["good"])
    page.locator(f"{OVER} [data-run]").wait_for(timeout=SOON)
    expect(page.locator(f"{OVER} h1")).to_have_text("good.npz")
    expect(page.locator(f"{OVER} .pg-viewer-facts")).to_contain_text("2 layers × 3 heads")
    expect(page.locator(f"{OVER} .pg-viewer-chart .heatmaplayer image")).to_be_visible(timeout=SOON)
    page.keyboard.press("Escape")
    expect(page.locator(OVER)).to_have_count(0)
    expect(page.locator("#prompt textarea")).to_have_value("The cat sat on the mat because it was tired")


def test_a_dragged_file_is_invited_and_other_files_are_refused(open_page, tmp_path):
    page, other = open_page(), tmp_path / "notes.pdf"
    other.write_text("no arrays")
    invited = "getComputedStyle(document.documentElement, '::after').content"
    page.evaluate(DRAG, "dragover")
    assert page.evaluate(invited) == f'"{WORDS["arrays_drop"]}"'
    page.evaluate(DRAG, "dragleave")
    assert page.evaluate(invited) == "none"
    drop(page, other)
    said = page.locator(".pg-viewer-said")
    expect(said.get_by_role("button", name=WORDS["arrays"], exact=True)).to_be_visible(timeout=SOON)
    expect(said).to_contain_text(".npz")
    assert page.evaluate(invited) == "none"
    open_page.forgive(r"status of 400")


def test_a_dropped_text_becomes_the_prompt(open_page, tmp_path):
    page, text = open_page(), tmp_path / "story.txt"
    text.write_bytes("\ufeffThe <b>cat</b> 猫\nsat on a mat.\n".encode())
    drop(page, text)
    expect(page.locator("#prompt textarea")).to_have_value("The <b>cat</b> 猫\nsat on a mat.")
    expect(page.locator("#pg-tokens .pg-chip").last).to_have_text(".")
    expect(page.locator("#prompt textarea")).to_be_focused()
    expect(page.locator(OVER)).to_have_count(0)


def test_the_menu_opens_a_file_and_what_is_wrong_is_said(open_page, files):
    page = open_page()
    page.get_by_role("button", name=WORDS["menu"]).click()
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name=WORDS["arrays"], exact=True).click()
    chosen.value.set_files(files["bad"])
    with pytest.raises(InputError) as error, np.load(files["bad"]) as bad:
        show_attention(bad["attention"], list(bad["tokens"]))
    for said in (error.value.what, error.value.hint):
        expect(page.locator(".pg-viewer-said")).to_contain_text(str(said))
    with page.expect_file_chooser() as chosen:
        page.locator(".pg-viewer-said").get_by_role("button", name=WORDS["arrays"], exact=True).click()
    chosen.value.set_files(files["good"])
    page.locator(f"{OVER} [data-run]").wait_for(timeout=SOON)
    page.get_by_role("button", name=words("en")["viewer.close"], exact=True).click()
    expect(page.locator(OVER)).to_have_count(0)
    open_page.forgive(r"status of 400")


def test_a_name_that_is_gone_is_said_in_the_visitor_s_language(open_page):
    page = open_page("?lang=zh#attention=gone", ready=".pg-viewer-said")
    own = words("zh")
    expect(page.locator(".pg-viewer-said")).to_contain_text(own["recorded.gone"])
    close = page.locator(".pg-viewer-said").get_by_role("button", name=own["header.keys_close"], exact=True)
    expect(close).to_be_visible(timeout=SOON)
    close.click()
    expect(page.locator(OVER)).to_have_count(0)
    assert page.evaluate("location.hash") == ""
    open_page.forgive(r"status of 404")
