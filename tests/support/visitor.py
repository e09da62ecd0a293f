"""What a visitor does on any page."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from viz.views.tabs import TABS
from viz.words import LANGUAGES, words

SOON = 120_000  # milliseconds; on a machine that is busy, and slow
# Every part of the open tab that is on the page has been drawn.
SETTLED = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent);
  return open && [...open.querySelectorAll(".pg-block > [data-part]")].every((part) =>
    part.hidden || !part.offsetParent || "drawn" in part.dataset);
}"""


# The figure is there, and for a while it was neither drawn again, which hears no click, nor moved by what is above it.
STILL = """async (chart) => {
  const look = () => document.querySelector(chart);
  while (!look()?._fullLayout?.xaxis) await new Promise((next) => setTimeout(next, 50));
  look().scrollIntoView({ block: "center" });
  let drawn = 0;
  look().on("plotly_afterplot", () => drawn++);
  const place = () => JSON.stringify([drawn, look().getBoundingClientRect()]);
  for (let before = place(), since = performance.now(); performance.now() - since < 300; ) {
    await new Promise((next) => setTimeout(next, 30));
    if (place() !== before) [before, since] = [place(), performance.now()];
  }
}"""


def still(page, chart: str) -> None:
    """Bring a figure into view and wait until a click on it is heard."""
    page.locator(chart).first.wait_for(timeout=SOON)
    page.evaluate(STILL, chart)


def open_tab(page, name: str) -> None:
    """Open a tab by its label or how that begins, in any language; the tabs of a group are there once it is open."""
    labels = {words(language)[f"tab.{tab.key}"]: tab.key for tab in TABS for language in LANGUAGES}
    key = labels.get(name) or next(key for label, key in labels.items() if label.startswith(name))
    tab = page.locator(f".pg-nav [data-tab={key}]")
    tab.wait_for(state="attached", timeout=SOON)
    if not tab.is_visible():
        page.locator(f".pg-nav .pg-group[data-group={tab.get_attribute('data-group')}]").click()
    tab.click()
    expect(tab).to_have_attribute("aria-current", "page")


def open_view(page, tab: str, key: str) -> None:
    """Open a view, by its key, of a tab, by its label in any language."""
    open_tab(page, tab)
    page.locator(f".pg-view:visible[data-key={key}]").click(timeout=SOON)


def settle(page) -> None:
    """Wait until everything on the open tab is drawn."""
    page.wait_for_function(SETTLED, timeout=SOON, polling=60)


def every_view(page, language: str = "en", *, keep: bool = True) -> Iterator[str]:
    """Open every view of every tab in turn, wait until it is drawn, and say which it is.

    Without `keep` what a tab shows is taken out of the page once it was seen: going over all of it is quicker.
    """
    for tab in TABS:
        page.evaluate("scrollTo(0, 0)")
        open_tab(page, words(language)[f"tab.{tab.key}"])
        settle(page)
        views = page.locator(f"[data-screen={tab.key}] .pg-views button:not([hidden])")
        for at in range(max(views.count(), 1)):
            if views.count():
                views.nth(at).click()
                expect(views.nth(at)).to_have_attribute("aria-selected", "true")
            settle(page)
            yield f"{tab.key} {at}"
        if not keep:
            page.locator(f"[data-screen={tab.key}]").evaluate("(screen) => screen.replaceChildren()")


def expect(*of):
    """Playwright's, imported late: the fixtures decide what happens where it is missing."""
    from playwright.sync_api import expect

    return expect(*of)


def too_late() -> type[Exception]:
    """What Playwright raises where something has not happened in time."""
    from playwright.sync_api import TimeoutError

    return TimeoutError


def export(part, name: str) -> Path:
    """The file that the first export menu within a part of a page gives, by the name of its format, like "CSV"."""
    part.locator(".pg-export-open").first.click()
    with part.page.expect_download(timeout=SOON) as file:
        part.page.get_by_role("menuitem", name=name, exact=True).click()
    return Path(file.value.path())


def exported_rows(part) -> list[list[str]]:
    """The rows of a part's CSV below the names of the columns; the last column says whose numbers they are."""
    names, *rows = csv.reader(io.StringIO(export(part, "CSV").read_text(encoding="utf-8-sig")))
    assert names.pop() in {words(language)["exports.column"] for language in LANGUAGES}
    told = [row.pop() for row in rows]
    assert told[0] and not any(told[1:])
    return [names, *rows]


def module(path: str) -> str:
    """A script of the page, for use in what a page evaluates: a promise of what it exports."""
    return f"import(new URL({path!r}, document.querySelector('script[src*=\"playground/static/\"]').src))"


def watch_token(page, view, role, text):
    """Type a token into the target's or the distractor's field of a view, and take it."""
    at = page.locator(f"#pg-{view}_targets [data-name={role}]")
    at.locator("input").fill(text)
    at.locator("input").press("Enter")
    expect(at.locator(".pg-selected")).to_be_visible()
