"""Splitting of a lesson's sentences into pieces that the page shows only as text: plain, `code`, **strong**, and
computed values.
"""

import re
from collections.abc import Callable

NAMED = re.compile(r"\{(\w+)\}")
_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\{(\w+)\}")
Piece = tuple[str, str]  # (kind, text); kind is "", "code", "strong" or "value"


def names_in(text: str) -> list[str]:
    """Return the names of the values in a sentence."""
    return NAMED.findall(text)


def pieces(text: str, written: Callable[[str], str]) -> list[Piece]:
    """Split a sentence into pieces; `written` returns the text of a value. Markup inside a value has no effect."""
    parts: list[Piece] = []
    end = 0
    for match in _MARKED.finditer(text):
        if match.start() > end:
            parts.append(("", text[end : match.start()]))
        code, strong, name = match.groups()
        parts.append(("code", code) if code else ("strong", strong) if strong else ("value", written(name)))
        end = match.end()
    return [*parts, ("", text[end:])] if end < len(text) else parts
