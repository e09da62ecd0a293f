"""Checks of the arguments of public functions: integers and numbers within bounds, else an InputError that names the
value.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real

from model.errors import InputError, say


def shown(value: object) -> str:
    """Format an unchecked value as text of at most 40 characters."""
    if isinstance(value, str):
        return value[:40]
    if getattr(value, "ndim", None) == 0:  # a NumPy or torch scalar
        value = value.item()
    # Converting a very large integer to text is slow, and Python limits its number of digits.
    plain = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**18)
    return repr(value) if plain else type(value).__name__


def is_whole(value: object) -> bool:
    """Return whether a value is a Python or NumPy integer; True, 1.0 and "1" are not."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def is_number(value: object) -> bool:
    """Return whether a value is a finite real number; True and "1" are not."""
    return is_whole(value) or (isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value))


def check_layer(layer: object, n_layer: int) -> None:
    """Raise InputError unless a layer is an integer from 0 to n_layer - 1."""
    if not (is_whole(layer) and 0 <= layer < n_layer):
        raise InputError("This layer does not exist.", shown(layer), say("Layers run from 0 to {}.", n_layer - 1))


def check_head(head: object, n_head: int) -> None:
    """Raise InputError unless a head is an integer from 0 to n_head - 1."""
    if not (is_whole(head) and 0 <= head < n_head):
        raise InputError("This head does not exist.", shown(head), say("Heads run from 0 to {}.", n_head - 1))


def check_position(position: object, T: int, *, from_end: bool = False) -> None:
    """Raise InputError unless a position is an integer from 0 (or from -T if `from_end`) to T - 1."""
    if not (is_whole(position) and (-T if from_end else 0) <= position < T):
        raise InputError("This position does not exist.", shown(position), say("Positions run from 0 to {}.", T - 1))


def check_positions(positions: Iterable[object], T: int) -> None:
    """Raise InputError unless each position is an integer from 0 to T - 1."""
    for position in positions:
        check_position(position, T)


def check_token(token: object, vocab: int) -> None:
    """Raise InputError unless a token id is an integer from 0 to vocab - 1."""
    if not (is_whole(token) and 0 <= token < vocab):
        raise InputError("There is no token with this id.", shown(token), say("Ids run from 0 to {}.", vocab - 1))


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raise InputError unless a setting is an integer from low to high."""
    if not (is_whole(value) and low <= value <= high):
        hint = say("Choose a whole number from {} to {}.", low, high)
        raise InputError("A setting is out of range.", f"{name}: {shown(value)}", hint)


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raise InputError unless a setting is a number from low to high."""
    if not (is_number(value) and low <= value <= high):
        hint = say("Choose a value from {} to {}.", f"{low:g}", f"{high:g}")
        raise InputError("A setting is out of range.", f"{name}: {shown(value)}", hint)
