"""What a visitor does on any page."""

SOON = 60_000  # milliseconds; on a busy machine


def open_tab(page, name: str) -> None:
    """Open a tab by its label; a narrow page keeps those that do not fit in a menu."""
    tab = page.locator("button[role=tab]:visible").filter(has_text=name)
    kept = page.locator(".overflow-dropdown button").filter(has_text=name)
    tab.or_(kept).first.wait_for(state="attached", timeout=SOON)
    if not tab.count():
        page.locator(".overflow-menu > button").click()
        tab = kept
    tab.first.click()


def expect(*of):
    """Playwright's, imported late: the fixtures decide what happens where it is missing."""
    from playwright.sync_api import expect

    return expect(*of)


def too_late() -> type[Exception]:
    """What Playwright raises where something has not happened in time."""
    from playwright.sync_api import TimeoutError

    return TimeoutError
