"""One walk over every view as most people see it, and one on a phone, in the dark, in Chinese."""

import pytest

from tests.support.visitor import SOON, expect, open_tab
from viz.views.tabs import TABS
from viz.words import words

# Every part of the open tab that is on the page has been drawn.
SETTLED = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent);
  return open && [...open.querySelectorAll(".pg-block > [data-part]")].every((part) =>
    part.hidden || !part.offsetParent || "drawn" in part.dataset);
}"""
# What is wrong with what is shown: parts that failed, that nobody can see, or that are wider than the page.
WRONG = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent), wrong = [];
  for (const problem of open.querySelectorAll(".pg-problem:not(.pg-quiet-box)"))
    if (problem.offsetParent) wrong.push(`problem: ${problem.textContent}`);
  for (const part of open.querySelectorAll(".pg-block > [data-part]")) {
    if (part.hidden || !part.offsetParent || !part.textContent.trim()) continue;
    const box = part.getBoundingClientRect();
    if (box.width < 8 || box.height < 8) wrong.push(`${part.dataset.part} is ${box.width} x ${box.height}`);
    if (box.right > innerWidth + 1) wrong.push(`${part.dataset.part} ends at ${box.right}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) wrong.push(`the page is ${wide} wide`);
  return wrong;
}"""


def walk(page, language: str) -> dict[str, list[str]]:
    """What is wrong, by tab and view, in every view of every tab."""
    found = {}
    for tab in TABS:
        open_tab(page, words(language)[f"tab.{tab.key}"])
        views = page.locator(f"[data-screen={tab.key}] .pg-views button")
        page.wait_for_function(SETTLED, timeout=SOON)
        for at in range(max(views.count(), 1)):
            if views.count():
                views.nth(at).click()
                expect(views.nth(at)).to_have_attribute("aria-selected", "true")
            page.wait_for_function(SETTLED, timeout=SOON)
            found[f"{tab.key} {at}"] = page.evaluate(WRONG)
    return {place: wrong for place, wrong in found.items() if wrong}


@pytest.mark.parametrize(
    ("theme", "language", "width"), [("light", "en", 1280), ("dark", "zh", 390)], ids=["desktop", "phone"]
)
def test_every_view_is_drawn_and_fits(open_page, start_tiny, theme, language, width):
    query = f"?__theme={theme}&lang={language}"
    page = open_page(query, url=start_tiny, viewport={"width": width, "height": 900}, color_scheme=theme)
    assert walk(page, language) == {}


@pytest.mark.parametrize("tab", TABS, ids=[tab.key for tab in TABS])
def test_a_tab_follows_the_prompt(open_page, start_tiny, tab):
    """What is shown is of the present prompt, also of one that was typed while the tab was open."""
    page = open_page(url=start_tiny)
    open_tab(page, words("en")[f"tab.{tab.key}"])
    page.wait_for_function(SETTLED, timeout=SOON)
    before = page.locator("#pg-tokens [data-part]").get_attribute("data-run")
    page.locator("#prompt textarea").fill("One day a dog met a cat. The dog and the cat")
    expect(page.locator("#pg-tokens [data-part]")).not_to_have_attribute("data-run", before, timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip").last).to_have_text("·cat")
    page.wait_for_function(SETTLED, timeout=SOON)
    assert page.evaluate(WRONG) == []
