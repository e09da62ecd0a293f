"""Selectors that do not look for shadow trees.

For every CSS selector Playwright asks each element of the document whether it has a shadow tree. This page has none and
tens of thousands of elements: that was an eighth of what a browser took in the tests.
"""

import re
from functools import wraps

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
