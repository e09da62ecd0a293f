"""Checks of arguments of public functions: integers and numbers within bounds, else an InputError that
names the value.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real

from model.errors import InputError, say


def shown(value: object) -> str:
    """Return an unchecked value as text of at most 40 characters."""
    if isinstance(value, str):
        return value[:40]
    if getattr(value, "ndim", None) == 0:  # a number of numpy or torch
        value = value.item()
    # Digits of a very large integer take long to write, and Python refuses to.
    plain = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**18)
    return repr(value) if plain else type(value).__name__


def is_whole(value: object) -> bool:
    """Return whether a value is an integer of Python or numpy; True, 1.0 and "1" are not."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def is_number(value: object) -> bool:
    """Return whether a value is a finite real number; True and "1" are not."""
    return is_whole(value) or (isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value))


def check_layer(layer: object, n_layer: int) -> None:
    """Raise InputError unless a layer is a whole number from 0 to n_layer - 1."""
    if not (is_whole(layer) and 0 <= layer < n_layer):
        raise InputError("This layer does not exist.", shown(layer), say("Layers run from 0 to {}.", n_layer - 1))


def check_head(head: object, n_head: int) -> None:
    """Raise InputError unless a head is a whole number from 0 to n_head - 1."""
    if not (is_whole(head) and 0 <= head < n_head):
        raise InputError("This head does not exist.", shown(head), say("Heads run from 0 to {}.", n_head - 1))


def check_position(position: object, T: int, *, from_end: bool = False) -> None:
    """Raise InputError unless a position is a whole number from 0 (`from_end`: -T) to T - 1."""
    if not (is_whole(position) and (-T if from_end else 0) <= position < T):
        raise InputError("This position does not exist.", shown(position), say("Positions run from 0 to {}.", T - 1))


def check_positions(positions: Iterable[object], T: int) -> None:
    """Raise InputError unless each is a whole number from 0 to T - 1."""
    for position in positions:
        check_position(position, T)


def check_token(token: object, vocab: int) -> None:
    """Raise InputError unless a token id is a whole number from 0 to vocab - 1."""
    if not (is_whole(token) and 0 <= token < vocab):
        raise InputError("There is no token with this id.", shown(token), say("Ids run from 0 to {}.", vocab - 1))


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raise InputError unless a setting is a whole number from low to high."""
    if not (is_whole(value) and low <= value <= high):
        hint = say("Choose a whole number from {} to {}.", low, high)
        raise InputError("A setting is out of range.", f"{name}: {shown(value)}", hint)


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raise InputError unless a setting is a number from low to high."""
    if not (is_number(value) and low <= value <= high):
        hint = say("Choose a value from {} to {}.", f"{low:g}", f"{high:g}")
        raise InputError("A setting is out of range.", f"{name}: {shown(value)}", hint)
