"""Every word on the page, by key, in English and Simplified Chinese; and what the model code says, translated."""

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent / "words"


@functools.cache
def words(language: str) -> Mapping[str, str]:
    """The catalogue of a language as {"section.key": text}, from all its files; an unknown language is English."""
    found: dict[str, str] = {}
    for path in sorted((_FOLDER / (language if language in LANGUAGES else "en")).glob("*.toml")):
        for section, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found |= {f"{section}.{key}": text for key, text in entries.items()}
    return found


def section(catalogue: Mapping[str, str], name: str) -> dict[str, str]:
    """All words of a section by their short keys."""
    return {key.removeprefix(f"{name}."): text for key, text in catalogue.items() if key.startswith(f"{name}.")}


def some(catalogue: Mapping[str, str], section: str, *keys: str) -> dict[str, str]:
    """Some words of a section by their short keys, for a part of the page."""
    return {key: catalogue[f"{section}.{key}"] for key in keys}


def pick_language(asked: str | None, accepted: str | None) -> str:
    """The language of a reader: `?lang=` where it is one of ours, else the browser's first that is, else English."""
    if asked and asked.lower()[:2] in LANGUAGES:
        return asked.lower()[:2]
    for entry in (accepted or "").split(","):
        if entry.strip().lower()[:2] in LANGUAGES:
            return entry.strip().lower()[:2]
    return "en"


@functools.cache
def _said(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Sentences of the model code as patterns, "{}" matching what was filled in, with their translations."""
    path = _FOLDER / f"errors.{language}.toml"
    if not path.is_file():
        return []
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [(re.compile(re.escape(text).replace(r"\{\}", "(.*)"), re.DOTALL), other) for text, other in table.items()]


def translate(sentence: str, language: str) -> str:
    """A sentence of the model code in the reader's language; unchanged where there is no translation."""
    for pattern, other in _said(language):
        if match := pattern.fullmatch(sentence):
            return other.format(*match.groups())
    return sentence
