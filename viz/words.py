"""Every word on the page, by key, in English and Simplified Chinese."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

LANGUAGES = ("en", "zh")


@functools.cache
def words(language: str) -> Mapping[str, str]:
    """The catalogue of a language as {"section.key": text}; an unknown language is English."""
    name = language if language in LANGUAGES else "en"
    with (Path(__file__).parent / "words" / f"{name}.toml").open("rb") as file:
        sections = tomllib.load(file)
    return {f"{section}.{key}": text for section, entries in sections.items() for key, text in entries.items()}


def pick_language(asked: str | None, accepted: str | None) -> str:
    """The language of a reader: `?lang=` where it is one of ours, else the browser's first that is, else English."""
    if asked and asked.lower()[:2] in LANGUAGES:
        return asked.lower()[:2]
    for entry in (accepted or "").split(","):
        if entry.strip().lower()[:2] in LANGUAGES:
            return entry.strip().lower()[:2]
    return "en"
