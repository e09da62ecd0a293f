"""Validation of regular expressions in untrusted tokenizer.json files: only patterns for which no hostile text can
make matching extremely slow.

tiktoken's engine passes patterns without look-around to a matcher that never backtracks. It backtracks on patterns
with look-around, up to a million steps per position in the text, so a malicious pattern blocks a server for minutes.
Two endings with look-around are known to take only one or two steps, and published vocabularies use no others.
"""

import re
from collections.abc import Iterator

from model.arguments import shown
from model.errors import UnsupportedModel

MOST_CHARACTERS = 2000  # maximum length of a pattern in characters; the longest published one has 400
MOST_TIMES = 16  # maximum count of a repetition, which the engine expands; the published ones end at 3
SAFE = (r"\s+(?!\S)", r"\s+(?![^\s\p{N}])")  # alternatives that match white space before other text
_PLAIN_GROUP = re.compile(r"\(\?(?:i|-i)?:")
_CLASS = re.compile(
    r"\[\^?(?:[^\[\]\\]|\\.)(?:[^\[\]\\]|\\.)*\]", re.DOTALL
)  # class without a nested class or a bracket at the start
_NAME = re.compile(r"\{\^?\w+\}")
_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")


def check_pattern(pattern: str) -> str:
    """Return the pattern unchanged. Raises UnsupportedModel if a text could make the engine search for very long."""
    if len(pattern) > MOST_CHARACTERS or not all(map(_is_plain, _alternatives(pattern))):
        raise UnsupportedModel(
            "The pattern of this vocabulary could run for a very long time.",
            shown(pattern),
            "Use a model whose pattern looks ahead only after white space.",
        )
    return pattern


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern into its top-level alternatives."""
    parts, depth, start = [], 0, 0
    for at, sign in _signs(pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def _is_plain(part: str) -> bool:
    """Return whether an alternative is a known one, or contains nothing that makes the engine backtrack or expand."""
    if part in SAFE:
        return True
    before = ""  # the previous symbol
    for at, sign in _signs(part):
        tail = part[at:]
        if sign == "[[" or (sign == "(" and tail.startswith("(?") and not _PLAIN_GROUP.match(tail)):
            return False
        if len(sign) == 2 and (sign[1].isdigit() or sign[1] in "kgGKbBAzZ<>{"):
            return False
        count = _COUNT.match(tail) if sign == "{" else None
        if count and (before == ")" or any(len(n) > 2 or int(n) > MOST_TIMES for n in count.groups() if n)):
            return False
        if sign == "+" and before in ("*", "+", "?", "}"):
            return False
        before = sign
    return True


def _signs(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the index and text of each symbol: an escaped symbol includes its backslash, a class in brackets is "[",
    and an unsupported class "[[".
    """
    at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            match = _CLASS.match(pattern, at)
            yield at, "[" if match else "[["
            at = match.end() if match else at + 1
            continue
        sign = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        yield at, sign
        at += len(sign)
        if sign in ("\\p", "\\P") and (name := _NAME.match(pattern, at)):
            at = name.end()


# --- the engine of the tokenizers library (Oniguruma), which always backtracks ---

KNOWN = (r" ?[^(\s|[.,!?…。，、।۔،])]+",)  # BLOOM's pattern, with a class inside a class
MOST_OPTIONAL = 3  # maximum number of optional parts before a required one; each doubles the attempts


def check_backtracking(pattern: str) -> str:
    """Return the pattern unchanged. Raises UnsupportedModel if a text could make a backtracking engine search for very
    long.

    In each alternative, at most one part that repeats without limit may stand before a part that must match: its number
    of attempts then grows with its length. Parts that repeat at the end never make a match fail. Groups must not
    repeat, and nothing in them may.
    """
    if len(pattern) > MOST_CHARACTERS or not (pattern in KNOWN or all(map(_is_quick, _alternatives(pattern)))):
        raise UnsupportedModel(
            "The pattern of this vocabulary could run for a very long time.",
            shown(pattern),
            "Use a model whose pattern looks ahead only after white space.",
        )
    return pattern


def _is_quick(part: str) -> bool:
    atoms = [] if part in SAFE else _atoms(part)
    if atoms is None:
        return False
    required, endless, optional = False, 0, 0
    for quantifier in reversed(atoms):
        if quantifier in ("+", "*"):
            endless += required
        elif quantifier in ("?", "{,}"):
            optional += required
        required = required or quantifier in ("", "+")
    return endless <= 1 and optional <= MOST_OPTIONAL


def _atoms(part: str) -> list[str] | None:
    """Return the quantifier of each atom of an alternative: "", "?", "*", "+", "{,}", or "=" for one that never gives
    anything back; None if it has something that is not known to be quick.
    """
    atoms: list[str] = []
    depth, before = 0, ""
    for at, sign in _signs(part):
        tail = part[at:]
        if sign == "[[" or (len(sign) == 2 and (sign[1].isdigit() or sign[1] in "kgG")):
            return None
        if sign == "(":
            if depth or (tail.startswith("(?") and not re.match(r"\(\?(?:(?:i|-i)?:|!|=)", tail)):
                return None
            depth, before = 1, sign
            continue
        if depth:
            depth -= sign == ")"
            if sign in ("*", "+", "{") or (sign == "?" and before != "("):
                return None
            if sign == ")":
                atoms.append("")
            before = ")" if sign == ")" else sign
            continue
        if sign in ("?", "*", "+", "{"):
            count = _COUNT.match(tail) if sign == "{" else None
            if before == "{" or not atoms or (before == ")" and sign != "?") or (sign == "{" and not count):
                return None
            if count and any(len(n) > 2 or int(n) > MOST_TIMES for n in count.groups() if n):
                return None
            if before in ("?", "*", "+"):  # possessive, or lazy
                atoms[-1] = "=" if sign == "+" else atoms[-1]
            elif count:
                atoms[-1] = "" if count[2] is None else "{,}" if count[2] else "+"
            else:
                atoms[-1] = sign
            before = sign
            continue
        if before == "{" and (sign.isdigit() or sign in (",", "}")):
            continue
        atoms.append("")
        before = sign
    return atoms
