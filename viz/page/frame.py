"""The frame around the views: the page's name, its groups of tabs, and what its search finds; of a language alone."""

from collections.abc import Iterator

from viz.seam.tab import Tab
from viz.views.tabs import GROUPS
from viz.words import LANGUAGES, Catalogue, section, words


def payload(catalogue: Catalogue, language: str) -> dict:
    """What the page's navigation and its search show."""
    return {
        "title": catalogue["page.title"],
        "groups": [
            {"key": key, "label": catalogue[f"group.{key}"], "tabs": [_tab(catalogue, tab) for tab in tabs]}
            for key, tabs in GROUPS
        ],
        "views": [place for _, tabs in GROUPS for tab in tabs for place in _views(catalogue, tab)],
        "languages": [{"code": code, "text": words(code)["page.language"]} for code in LANGUAGES if code != language],
        "words": section(catalogue, "header"),
        "search": section(catalogue, "search"),
    }


def _tab(catalogue: Catalogue, tab: Tab) -> dict:
    return {
        "key": tab.key,
        "label": catalogue[f"tab.{tab.key}"],
        "question": catalogue[f"tab.{tab.key}_question"],
    }


def _views(catalogue: Catalogue, tab: Tab) -> Iterator[dict]:
    """Every view of a tab: where it is, its name, the textbook's word for it, and what it shows."""
    for view in tab.views:
        yield {
            "tab": tab.key,
            "view": "" if tab.alone else view.key,
            "name": catalogue[f"{view.key}.view"],
            "term": catalogue.get(f"{view.key}.term", ""),
            "about": catalogue[f"{view.key}.about"],
        }
