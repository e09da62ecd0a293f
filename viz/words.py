"""All words of the page, by key, in every language with a folder in viz/words; and translations of the code's
messages.
"""

import functools
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import InputError, Message

_FOLDER = Path(__file__).parent / "words"
_SYNONYMS = "search.toml"  # in a language's folder; contains lists, whereas the other files contain texts
# Each folder of words is a language, named by its lowercase tag. English is the language of code and docstrings, and
# the fallback for all other languages.
LANGUAGES = ("en", *sorted(path.name for path in _FOLDER.iterdir() if path.is_dir() and path.name != "en"))
MASKED = "masked"  # tables of words for a model that predicts masked tokens, which replace those beside them
WIDE = tuple("。！？；：")  # full-width punctuation marks, which need no space after them


class Catalogue(Mapping):
    """The words of a language as {"section.key": text}; immutable, and searchable by section."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)
        self._sections: dict[str, dict[str, str]] = {}  # "a.b.c" belongs to "a" as "b.c" and to "a.b" as "c"
        for key, text in self._texts.items():
            for at in (n for n, letter in enumerate(key) if letter == "."):
                self._sections.setdefault(key[:at], {})[key[at + 1 :]] = text

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def section(self, name: str) -> dict[str, str]:
        """Return all words of a section by their short keys."""
        return dict(self._sections.get(name, {}))


@functools.cache
def words(language: str) -> Catalogue:
    """Return the catalogue of a language, with English for missing words; an unknown language is English."""
    spoken = dict.fromkeys(("en", language)) if language in LANGUAGES else ("en",)
    outside = [texts_of(_outside(each)) for each in spoken]
    ours = [own_texts(each) for each in spoken]  # last, so that external views cannot override the page's words
    return Catalogue({key: text for texts in (*outside, *ours) for key, text in texts.items()})


def own_texts(language: str) -> dict[str, str]:
    """Return the project's words in a language, by key, without the English fallbacks."""
    paths = (_FOLDER / language).rglob("*.toml")
    return texts_of(path for path in paths if path.parent.name != "errors" and path.name != _SYNONYMS)


def synonyms(language: str) -> dict[str, tuple[str, ...]]:
    """Return the synonyms that the search accepts in a language, by target: "view.map": ("attention map", ...)."""
    path = _FOLDER / language / _SYNONYMS
    return {key: tuple(names) for key, names in _flat(_table(path), "")} if path.is_file() else {}


@functools.cache
def file_texts(language: str, name: str) -> dict[str, str]:
    """Return the texts, by key, of a file outside the tabs' folders, such as "page" or "server"."""
    return texts_of([_FOLDER / language / f"{name}.toml"])


def texts_of(paths: Iterable[Path]) -> dict[str, str]:
    """Load the texts of the given files, by key. Raises InputError that names a file that cannot be read."""
    return {key: text for path in sorted(paths) for key, text in _flat(_table(path), "")}


def _table(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # invalid UTF-8 or TOML
        raise InputError("A file of words cannot be read.", f"{path}: {error}", "Correct it.") from error


def _outside(language: str) -> Iterator[Path]:
    """Yield the word files of external views (viz/views/outside.py)."""
    root = os.environ.get("PLAYGROUND_VIEWS", "")
    yield from Path(root).glob(f"*/words/{language}.toml") if root else ()


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """Flatten nested tables to dotted keys."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


@dataclass(frozen=True)
class Words(Mapping):
    """The words of one view or part: `words["title"]` is `<place>.title` of the catalogue, else `common.title`."""

    catalogue: Catalogue
    place: str  # "score_scaling", or "score_scaling.table"
    variant: str = ""  # a table in the place whose words come first, such as "masked"

    def __getitem__(self, key: str) -> str:
        first = self.catalogue.get(f"{self.place}.{self.variant}.{key}") if self.variant else None
        text = first or self.catalogue.get(f"{self.place}.{key}") or self.catalogue.get(f"common.{key}")
        if text is None:
            raise KeyError(f"{self.place}.{key}")
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(section(self.catalogue, self.place))

    def __len__(self) -> int:
        return len(section(self.catalogue, self.place))

    def within(self, name: str) -> "Words":
        """Return the words of a nested table: `words.within("table")["title"]` is `words["table.title"]`."""
        return Words(self.catalogue, f"{self.place}.{name}", self.variant)

    def plain(self) -> dict[str, str]:
        """Return the words as a dict for a payload, with dotted keys for nested tables, without those of variants."""
        words = section(self.catalogue, self.place)
        usual = {key: text for key, text in words.items() if not key.startswith(f"{MASKED}.")}
        return usual | (section(self.catalogue, f"{self.place}.{self.variant}") if self.variant else {})

    def of(self, place: str) -> "Words":
        """Return the words of another place, in the same variant."""
        return Words(self.catalogue, place, self.variant)


def section(catalogue: Catalogue, name: str) -> dict[str, str]:
    """Return all words of a section by their short keys."""
    return catalogue.section(name)


def joined(sentences: Iterable[str]) -> str:
    """Join sentences with a space, except after full-width punctuation."""
    text = ""
    for each in filter(None, sentences):
        text += each if not text or text.endswith(WIDE) else f" {each}"
    return text


def plot_words(catalogue: Catalogue) -> dict[str, str]:
    """Return the labels of the controls below every figure."""
    return section(catalogue, "plot")


def some(catalogue: Mapping[str, str], section: str, *keys: str) -> dict[str, str]:
    """Select words of a section by their short keys, for a part of the page."""
    return {key: catalogue[f"{section}.{key}"] for key in keys}


def pick_language(requested: str | None, accepted: str | None) -> str:
    """Choose the user's language: `?lang=` if it is supported, else the browser's first supported one, else English."""
    for entry in (requested or "", *(accepted or "").split(",")):
        tag = entry.partition(";")[0].strip().lower().replace("_", "-")
        while tag and tag not in LANGUAGES:  # "pt-br" if there is such a folder, else "pt"
            tag = tag.rpartition("-")[0]
        if tag:
            return tag
    return "en"


@functools.cache
def _sentences(language: str) -> Mapping[str, str]:
    """Return the translations of the code's messages, by their English template with "{}" for inserted values."""
    path = _FOLDER / language / "errors" / "errors.toml"
    return _table(path) if path.is_file() else {}


def translate(sentence: str, language: str) -> str:
    """Translate a message of the code; it is returned unchanged if there is no translation."""
    template, values = (sentence.template, sentence.values) if isinstance(sentence, Message) else (sentence, ())
    other = _sentences(language).get(template)
    return sentence if other is None else other.format(*values)
