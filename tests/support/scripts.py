"""The page's scripts as text, for tests of what they ask for."""

import re
from pathlib import Path

STATIC = Path(__file__).parents[2] / "static"


def script(*patterns: str) -> str:
    """The scripts that match, one after the other, each statement on one line."""
    paths = [path for pattern in patterns for path in sorted(STATIC.glob(f"{pattern}.js"))]
    assert paths, patterns
    lines = (re.sub(r"\s*\n\s*", " ", path.read_text(encoding="utf-8")) for path in paths)
    return "\n".join(re.sub(r"(?<=[(\[]) ", "", line) for line in lines)


def words_read(*patterns: str) -> set[str]:
    """The entries of `words` that scripts read."""
    return words_in(script(*patterns))


def names_in(code: str) -> set[str]:
    """The names in code; the words of a table's columns are read by the names of the columns."""
    return set(re.findall(r"\b(\w+)\b", code)) | {f"column_{name}" for name in re.findall(r'"(\w+)"', code)}


def words_in(code: str) -> set[str]:
    """The same of code; a hint has one text for a mouse and one for a finger."""
    hints = re.findall(r"\bhint\([\w.]*words, \"(\w+)\"\)", code)
    return {*re.findall(r"\bwords\.(\w+)", code), *hints, *(f"{name}_touch" for name in hints)}
