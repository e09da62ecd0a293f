"""Arguments of endpoints and their rules, which are checked before anything is computed. Arguments are untrusted."""

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from model.arguments import shown
from model.errors import InputError, say

MOST_TEXT = 1000  # maximum length of a string other than a prompt in characters
MOST_ITEMS = 4096  # maximum number of entries in a list
_LARGEST = 2**53  # largest integer accepted


@dataclass(frozen=True)
class Within:
    """A rule for a number from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class OneOf:
    """A rule for a string that is one of the given names."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Long:
    """A rule for a text whose length is checked when it is tokenized."""


Prompt = Annotated[str, Long()]
Rows = Annotated[int, Within(1, 1000)]  # maximum number of rows per answer
Few = Annotated[int, Within(1, 10)]
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "named fields"}


def rule(hint: Any) -> Any:
    """Return the Within, OneOf or Long of a type hint, or None if it has no rule."""
    return get_args(hint)[1] if get_origin(hint) is Annotated else None


def bare(hint: object) -> object:
    """Convert the type hint for a schema: names become a Literal, and rules are omitted."""
    constraint = rule(hint)
    if isinstance(constraint, OneOf):
        return Literal[constraint.names]
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def checked(name: str, value: Any, hint: Any) -> Any:
    """Validate and return the value of one argument. Raises InputError if it does not match its type hint and rule."""
    constraint = rule(hint)
    result = _typed(name, value, get_args(hint)[0] if constraint else hint, isinstance(constraint, Long))
    if isinstance(constraint, OneOf) and result not in constraint.names:
        raise InputError(
            "An argument has an unknown value.", got(name, result), say("Choose one of: {}.", _list(constraint.names))
        )
    if isinstance(constraint, Within) and not constraint.low <= result <= constraint.high:
        hint = say("Choose a value from {} to {}.", f"{constraint.low:g}", f"{constraint.high:g}")
        raise InputError("An argument is out of range.", got(name, result), hint)
    return result


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def got(name: str, value: object) -> str:
    """Format an argument as error messages quote it."""
    return f"{name}: {shown(value)}"


def _typed(name: str, value: Any, hint: Any, long: bool = False) -> Any:
    """Convert the value to the type of the hint."""
    if get_origin(hint) in (types.UnionType, typing.Union):
        (one,) = (each for each in get_args(hint) if each is not type(None))
        return None if value is None else _typed(name, value, one)
    if get_origin(hint) is list:
        if not isinstance(value, list | tuple):
            raise _wrong(name, value, "a list")
        if len(value) > MOST_ITEMS:
            raise InputError("A list is too long.", f"{name}: {len(value)}", say("At most {} entries.", MOST_ITEMS))
        return [_typed(name, each, get_args(hint)[0]) for each in value]
    if not _is_a(value, hint):
        raise _wrong(name, value, _KINDS[hint])
    if hint is str and not long and len(value) > MOST_TEXT:
        raise InputError("A text is too long.", f"{name}: {len(value)}", say("At most {} characters.", MOST_TEXT))
    return dict(value) if hint is dict else hint(value)


def _is_a(value: object, hint: type) -> bool:
    """Return whether a value is of a plain type; 3.0 counts as an integer, True does not."""
    if hint is dict:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if hint in (str, bool):
        return isinstance(value, hint)
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_LARGEST <= value <= _LARGEST:
        return False
    return math.isfinite(value) and (hint is float or value % 1 == 0)


def _wrong(name: str, value: object, expected: str) -> InputError:
    return InputError("An argument has the wrong type.", got(name, value), say("Give {}.", expected))
