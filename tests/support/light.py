"""Playwright with less work: a Chromium without windows, selectors that do not look for shadow trees, short stacks.

For every CSS selector Playwright asks each element of the document whether it has a shadow tree. This page has none and
tens of thousands of elements: that was an eighth of what a browser took in the tests.
"""

import inspect
import re
import shutil
import sys
from functools import wraps
from types import SimpleNamespace

# The one without windows takes a tenth less of the processor for the same pages. None: the one that Playwright finds.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ENGINE = re.compile(r"^\s*(?:[\w:-]+=|/|\.\.|['\"])|>>")  # text=, xpath, a chain: no plain CSS


def light(selector: str) -> str:
    """A CSS selector that stays in the document itself; any other as it is."""
    return selector if ENGINE.search(selector) else f"css:light={selector}"


def stay_light(*classes: type) -> None:
    """From now on the locators of these classes of Playwright are light."""
    for each in classes:
        whole = each.locator
        if not hasattr(whole, "__wrapped__"):
            each.locator = _lightened(whole)


def _lightened(whole):
    @wraps(whole)
    def locator(self, selector_or_locator, **options):
        kept = light(selector_or_locator) if isinstance(selector_or_locator, str) else selector_or_locator
        return whole(self, kept, **options)

    return locator


def quick_stacks() -> None:
    """Of its caller Playwright wants file, line and function; `inspect.stack` looks for more, in every loaded module.

    At each call, that is: with torch loaded, a fifth of what a test's own process took.
    """
    from playwright._impl import _connection, _network, _sync_base

    for module in (_connection, _network, _sync_base):
        module.inspect = SimpleNamespace(**{**vars(inspect), "stack": _frames})


def _frames(context: int = 0) -> list[inspect.FrameInfo]:
    found, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
        frame = frame.f_back
    return found
