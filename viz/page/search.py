"""The entries of the page's search: views, settings, strategies and their synonyms, fetched when it is first opened.

Tabs, glossary terms, lessons and actions are already on the page or have their own address; the search script adds
them. An entry is named by its target, which is also used in the files of synonyms (viz/words/<language>/search.toml):
"view.map", "setting.lens.curve", "setting.forget.kind.bigbird" (an option), "strategy.beam", "term.softmax",
"tab.design", "lesson.dice", "action.share".
"""

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from model.generation.strategies import STRATEGIES
from viz.page.guide import table, terms
from viz.seam.settings import Choice, Setting
from viz.seam.tab import Tab
from viz.seam.view import View
from viz.views.tabs import TABS
from viz.words import Catalogue, Words, synonyms, words

# The page's own controls and their labels; static/page/search/ways.js locates each of them.
ACTIONS = {
    "learn": "header.learn",
    "tour": "header.tour",
    "glossary": "header.glossary",
    "report": "header.report",
    "share": "header.share",
    "keys": "header.keys",
    "arrays": "header.arrays",
    "log_out": "header.log_out",
    "language": "page.language",
    "examples": "examples.label",
    "models": "models.label",
    "export": "exports.open",
    "theme": "search.action_theme",
}
_NAME = re.compile(r"[^\W\d_]{3}|[\u3400-\u9fff]{2}|[A-Z]{2}|\d[A-Z]|[A-Z]\d")
_FIELD = re.compile(
    r"\s*[(（][^()（）]*{\w+}[^()（）]*[)）]|\s*{\w+}\s*"
)  # a placeholder that is filled in for each scene


LISTED = ("view.", "setting.")  # targets whose entries have their synonyms with them

Synonyms = dict[str, list[str]]  # alternative names by target


@dataclass(frozen=True)
class FormPlace:
    """The form that contains a setting: the part on the page, the view that is opened for it, and its words."""

    part: str
    tab: str
    view: str
    words: Words


@functools.cache
def payload(language: str) -> dict[str, list]:
    """Build the entries in a language: {"views", "forms", "strategies", "synonyms"}.

    Settings are listed by form: "setting.<form's words>.<setting's name>" is the target of one. Views, settings and
    options have their synonyms in `also`; `synonyms` are those of the other targets, [[target, [word, ...]], ...]. They
    are those of the language, those in English, and the English names.
    """
    catalogue, synonyms = words(language), _synonyms(language)
    return {
        "views": [_view(catalogue, tab, view, synonyms) for tab in TABS for view in tab.views],
        "forms": [_form(place, settings, synonyms) for place, settings in _by_form(catalogue)],
        "strategies": [[key, catalogue[f"strategies.names.{key}"]] for key in STRATEGIES],
        "synonyms": [[target, also] for target, also in synonyms.items() if not target.startswith(LISTED)],
    }


def _view(catalogue: Catalogue, tab: Tab, view: View, synonyms: Synonyms) -> dict[str, Any]:
    return {
        "key": view.key,
        "tab": tab.key,
        "view": "" if tab.is_single else view.key,
        "name": catalogue[f"{view.key}.view"],
        "term": catalogue.get(f"{view.key}.term", ""),
        "about": catalogue[f"{view.key}.about"],
        "also": synonyms.get(f"view.{view.key}", []),
    }


def declared(catalogue: Catalogue) -> Iterator[tuple[Setting, FormPlace]]:
    """Yield every declared setting once, with its place; for a setting shared by several views, that is the first of
    them.
    """
    for tab in TABS:
        shared: set[str] = set()
        for view in tab.all_views:
            opened = "" if tab.is_single or view is tab.beside else view.key
            forms = [
                (each.declares, view.part_name(name), each.declares_in)
                for name, each in view.parts.items()
                if each.declares
            ]
            forms.append((view.settings, f"{view.key}_form", ""))
            forms.append((view.tab_settings, tab.chooser, f"{tab.key}.settings"))
            for settings, part, at in forms:
                place = FormPlace(part, tab.key, opened, Words(catalogue, at or f"{view.key}.settings"))
                for each in settings:
                    if (name := f"{part} {each.name}") not in shared:
                        shared.add(name)
                        yield each, place


def _by_form(catalogue: Catalogue) -> Iterator[tuple[FormPlace, list[Setting]]]:
    """Yield the forms with the settings that are declared in them."""
    for place, each in itertools.groupby(declared(catalogue), lambda pair: pair[1]):
        yield place, [setting for setting, _ in each]


def key_of(setting: Setting, place: FormPlace) -> str:
    """Return the target of a setting: "<place of its words>.<name>"."""
    return f"{_key_of_form(place)}.{setting.name}"


def _key_of_form(place: FormPlace) -> str:
    return place.words.place.removesuffix(".settings")


def label_of(setting: Setting, place: FormPlace) -> str:
    """Return a setting's label without the placeholders that are filled in for each scene."""
    return _FIELD.sub(" ", place.words[setting.name]).strip()


def options(setting: Setting, words: Words) -> Iterator[tuple[str, str]]:
    """Yield the options of a setting that can be searched by name: (value, text). Options that depend on the scene are
    excluded.
    """
    if not isinstance(setting, Choice) or callable(setting.options):
        return
    for option in setting.options:
        text = setting.label(words, option) if setting.label else words.get(f"{setting.name}_{option}", "")
        if not option.isdigit() and _NAME.search(text):  # a number is not a name
            yield option, text


def _form(place: FormPlace, settings: list[Setting], synonyms: Synonyms) -> dict[str, Any]:
    return {
        "key": _key_of_form(place),
        "part": place.part,
        "tab": place.tab,
        "view": place.view,
        "settings": [_setting(each, place, synonyms) for each in settings],
    }


def _setting(setting: Setting, place: FormPlace, synonyms: Synonyms) -> dict[str, Any]:
    words, target = place.words, f"setting.{key_of(setting, place)}"
    entry: dict[str, Any] = {"name": setting.name, "label": label_of(setting, place)}
    if also := synonyms.get(target):
        entry["also"] = also
    if about := words.get(f"{setting.name}_help"):
        entry["about"] = about
    if choices := list(options(setting, words)):
        entry["options"] = [[option, text, synonyms.get(f"{target}.{option}", [])] for option, text in choices]
    if setting.when:
        entry["when"] = {name: list(values) for name, values in setting.when.items()}
    return entry


def _synonyms(language: str) -> Synonyms:
    """Collect the alternative names that a user may enter in a language, by target."""
    also: dict[str, dict[str, None]] = {}
    for each in dict.fromkeys((language, "en")):
        for target, others in synonyms(each).items():
            also.setdefault(target, {}).update(dict.fromkeys(others))
    if language != "en":
        for target, names in _english().items():
            also.setdefault(target, {}).update(dict.fromkeys(names))
    return {target: list(others) for target, others in also.items()}


def _english() -> Synonyms:
    """Collect the English names of all targets, for pages in other languages."""
    english = words("en")
    named = {f"tab.{tab.key}": [english[f"tab.{tab.key}"]] for tab in TABS}
    for view in (view for tab in TABS for view in tab.views):
        named[f"view.{view.key}"] = [english[f"{view.key}.view"], english.get(f"{view.key}.term", "")]
    named |= {f"strategy.{key}": [english[f"strategies.names.{key}"]] for key in STRATEGIES}
    named |= {f"action.{key}": [english[word]] for key, word in ACTIONS.items() if key != "language"}
    named |= {f"setting.{key_of(*each)}": [label_of(*each)] for each in declared(english)}
    named |= {f"term.{key}": [term["name"], *term["forms"]] for key, term in terms(english).items()}
    return {target: [name for name in dict.fromkeys(names) if name] for target, names in named.items()}


def targets() -> set[str]:
    """Collect all targets except the lessons, which have their own files."""
    catalogue = words("en")
    keys = {f"tab.{tab.key}" for tab in TABS} | {f"view.{view.key}" for tab in TABS for view in tab.views}
    for setting, place in declared(catalogue):
        key = f"setting.{key_of(setting, place)}"
        keys |= {key, *(f"{key}.{option}" for option, _ in options(setting, place.words))}
    keys |= {f"strategy.{key}" for key in STRATEGIES} | {f"term.{key}" for key in table("glossary")}
    return keys | {f"action.{key}" for key in ACTIONS}
