"""JSON from files that anybody may have written."""

import json
from collections.abc import Sequence

DEEPEST = 64  # brackets inside brackets; no file that is read here needs more than ten


def parse(text: str) -> object:
    """The value of a JSON text.

    Raises ValueError for a text that is no JSON, that nests deeper than DEEPEST, that gives a key of an object twice,
    or that holds NaN or Infinity, which are not JSON although Python reads them.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
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
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice[:80]!r} occurs twice")
    return made


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
