"""Tokens that make up one character together stand in one frame with it, and each says which part it is."""

import pytest

from tests.support.visitor import SOON, open_tab, settle

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

FAMILY = "👨‍👩‍👧"
TEXT = f"ש {FAMILY} ok"
# What is wrong with the frames within a box: what is not seen, lies outside its frame or is wider than the page.
WRONG = """(box) => {
  const wrong = [];
  for (const frame of box.querySelectorAll(".pg-joined")) {
    const around = frame.getBoundingClientRect();
    for (const node of frame.querySelectorAll("*")) {
      const { left, right, top, bottom, width, height } = node.getBoundingClientRect();
      if (!node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || width < 2 || height < 5)
        wrong.push(`unseen: ${node.textContent}`);
      if (left < around.left - 1 || right > around.right + 1 || top < around.top - 3 || bottom > around.bottom + 3)
        wrong.push(`outside: ${node.textContent}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is too wide");
  return wrong;
}"""


@pytest.fixture(params=[(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], ids=str)
def page(request, open_page):
    """A page with a prompt whose characters are cut, at a width and in a theme."""
    width, scheme = request.param
    page = open_page(
        "?__theme=dark" if scheme == "dark" else "",
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
    )
    page.locator("#prompt textarea").fill(TEXT)
    page.locator("#prompt textarea").press("Enter")
    page.locator("#pg-tokens .pg-joined").first.wait_for(timeout=SOON)
    return page


def shown(page, within: str) -> list[list[str]]:
    """The character of each frame in a box, and the texts of its tokens."""
    return page.locator(f"{within} .pg-joined").evaluate_all(
        "frames => frames.map(frame => [...frame.children].map(node => node.firstChild.textContent))"
    )


def test_frames_above_the_prompt_and_in_the_reader(page, lm):
    tokens = lm.encode(TEXT)
    family = [f"<0x{byte:02X}>" for byte in FAMILY.encode()]
    assert [len(raw) for raw in tokens.raw[:2]] == [1, 1], "the vocabulary cuts both characters into bytes"
    expected = [["ש", "<0xD7>", "<0xA9>"], [FAMILY, *family]]
    strip = page.locator("#pg-tokens")
    strip.locator(".pg-chips-all").click()  # all of them
    assert shown(page, "#pg-tokens") == expected
    expect(strip.get_by_text("ש", exact=True)).to_be_visible()
    assert strip.evaluate(WRONG) == []
    ids = strip.locator(".pg-joined-id").all_inner_texts()
    assert ids == [str(tokens.ids[at]) for at in (0, 1, *range(3, 3 + len(family)))]
    first = strip.locator(".pg-chip[data-index='0']")
    expect(first).to_have_attribute("title", "byte 1 of 2 of ש")
    first.hover()
    expect(strip.locator(".pg-hint")).to_contain_text("bytes d7 · byte 1 of 2 of ש")
    first.locator("small").click()
    expect(first).to_have_attribute("aria-pressed", "true")

    open_tab(page, "Attention")
    page.locator("[data-screen=attention] [data-key=text]").click()
    settle(page)
    reader = page.locator(".pg-reading-text")
    assert shown(page, ".pg-reading-text") == expected
    expect(reader.locator(".pg-joined-character").first).to_be_visible()
    assert reader.evaluate(WRONG) == []
    expect(reader.locator("button[data-index='1']")).to_have_attribute("title", "byte 2 of 2 of ש")

    switch = strip.get_by_role("button", name="Join")
    expect(switch).to_have_attribute("aria-pressed", "true")
    switch.click()
    expect(page.locator(".pg-joined")).to_have_count(0)
    expect(strip.locator(".pg-chip")).to_have_count(len(tokens))
    expect(reader.locator("button")).to_have_count(len(tokens))
    expect(first).to_have_attribute("title", "byte 1 of 2 of ש")
    switch.click()
    assert shown(page, "#pg-tokens") == shown(page, ".pg-reading-text") == expected


def test_frames_in_every_vocabulary(page):
    open_tab(page, "Anatomy")
    page.locator("[data-screen=anatomy] [data-key=tokenizers]").click()
    settle(page)
    rows = page.locator(".pg-vocab-row", has_text="UTF-8 bytes")
    expect(rows.locator(".pg-joined-character")).to_have_text(["ש", FAMILY])
    expect(rows.locator(".pg-joined-character").first).to_be_visible()
    assert page.locator(".pg-vocab-rows").evaluate(WRONG) == []
    expect(rows.locator(".pg-vocab-chip").first).to_have_attribute("title", "id 215, bytes: 1 · byte 1 of 2 of ש")
    characters = page.locator(".pg-vocab-row", has_text="characters")
    expect(characters.locator(".pg-joined-character")).to_have_text([FAMILY])


def test_a_prompt_without_cut_characters_has_no_switch(page):
    page.locator("#prompt textarea").fill("a plain text")
    page.locator("#prompt textarea").press("Enter")
    expect(page.locator("#pg-tokens .pg-joined")).to_have_count(0, timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chips-join")).to_be_hidden()
