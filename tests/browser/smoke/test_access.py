"""axe-core finds no serious fault in any view: names, roles, contrast, order."""

from importlib.resources import files

import pytest

from tests.support.visitor import SOON, open_tab
from viz.views.tabs import TABS
from viz.words import words

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
# What is there for everyone on top is looked at once, and then the open tab.
LOOK = """async ([levels, whole]) => {
  const open = [...document.querySelectorAll("[role=tabpanel]")].find((panel) => panel.offsetParent);
  const found = await axe.run(whole ? document : open, { runOnly: levels, resultTypes: ["violations"] });
  return found.violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""
SETTLED = """() => ![...document.querySelectorAll("[role=tabpanel] [data-part]")].some((part) =>
  part.offsetParent && !part.hidden && part.dataset.part !== "lesson" // a channel, always empty
  && !part.childElementCount && !part.textContent)"""


def faults(page, whole: bool = False) -> list[str]:
    """What axe says of the open tab, or of the whole page, once it is drawn."""
    page.wait_for_function(SETTLED, timeout=SOON)
    if page.evaluate("!window.axe"):
        page.evaluate(AXE)
    return page.evaluate(LOOK, [LEVELS, whole])


@pytest.mark.parametrize(
    ("theme", "language", "width", "every_view"), [("light", "en", 1280, True), ("dark", "zh", 390, False)]
)
def test_no_view_has_a_serious_fault(open_page, start_tiny, theme, language, width, every_view):
    query = f"?__theme={theme}&lang={language}"
    page = open_page(query, url=start_tiny, viewport={"width": width, "height": 900})
    found = {"page": faults(page, whole=True)}
    for tab in TABS:
        open_tab(page, words(language)[f"tab.{tab.key}"])
        views = page.locator(".pg-views:visible button")
        for at in range(views.count() if every_view else 1):
            if views.count():
                views.nth(at).click()
            found[f"{tab.key} {at}"] = faults(page)
    assert {place: told for place, told in found.items() if told} == {}
