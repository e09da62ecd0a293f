"""A JSON parser for untrusted files."""

import json
from collections.abc import Sequence

DEEPEST = 64  # maximum nesting depth; no supported file needs more than ten


def parse(text: str, *, constants: bool = False) -> object:
    """Parse a JSON text.

    Raises ValueError for invalid JSON, nesting deeper than DEEPEST, duplicate keys of an object, and NaN or Infinity,
    which are not JSON although Python writes them; if `constants`, they are parsed as floats.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=float if constants else _no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [child for each in level for child in _children(each) if isinstance(child, dict | list)]
        if not level:
            return value
    raise ValueError("it is nested too deeply")


def _children(value: object) -> Sequence | object:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _object(pairs: list[tuple[str, object]]) -> dict:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice[:80]!r} occurs twice")
    return result


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
