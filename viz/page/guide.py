"""The guided tour and the glossary, as data."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viz.words import Catalogue, section

_FOLDER = Path(__file__).parents[1]


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """Load a language-independent file from the folder of words."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def payload(words: Catalogue) -> dict:
    """Build the tour and the glossary in the user's language."""
    texts = {name: section(words, name) for name in ("tour", "glossary", "states")}
    return {"steps": steps(words), "terms": terms(words), "words": texts}


def steps(words: Catalogue) -> list[dict]:
    """Build the steps of the tour in order: each step's control, the event that completes it, and its words."""
    return [step | section(words, f"tour_{step['id']}") for step in table("tour")["step"]]


def terms(words: Catalogue) -> dict[str, dict]:
    """Build the glossary in alphabetical order: each term's meaning, formula, source and inflected forms."""
    by_key = {key: term_of(words, key, entry) for key, entry in table("glossary").items()}
    return dict(sorted(by_key.items(), key=lambda item: item[1]["name"].casefold()))


def term_of(words: Catalogue, key: str, entry: Mapping[str, object]) -> dict:
    """Build one entry of the glossary."""
    texts = section(words, f"term_{key}")
    forms = [form.strip() for form in texts["forms"].split(",")]
    return {"name": texts["name"], "about": texts["about"], "forms": forms, "common": False, **entry}
