"""A vector of the residual stream and a list of positions, each as text that an edit, a link and a key can hold."""

import base64
import binascii
import functools
import re

import numpy as np

from model.arguments import shown
from model.errors import InputError, say

MOST_WIDTH = 16_384  # numbers of a vector; the widest families have this d_model
MOST_RANGES = 64
_RANGE = re.compile(r"(\d{1,9})(-(\d{1,9})?)?")


def vector_text(vector: np.ndarray) -> str:
    """Write a vector [D] as text: base64 of its numbers as little-endian float32.

    `vector_of(vector_text(v))` is v in float32. Raises InputError unless it has one axis with 1 to MOST_WIDTH finite
    numbers.
    """
    numbers = np.asarray(vector)
    if numbers.ndim != 1 or not 0 < len(numbers) <= MOST_WIDTH or numbers.dtype.kind not in "iuf":
        got = f"{numbers.dtype} {list(numbers.shape)}"
        raise InputError("A vector must be a list of numbers.", got, say("Give 1 to {} numbers.", MOST_WIDTH))
    with np.errstate(over="ignore"):
        numbers = numbers.astype("<f4")
    _check_finite(numbers)
    return base64.b64encode(numbers.tobytes()).decode()


@functools.lru_cache(maxsize=256)
def vector_of(text: str) -> np.ndarray:
    """Read a vector from its text. float32 [D]; do not write to it

    Raises InputError for text that `vector_text` cannot have written, and for numbers that are not finite.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        data = b""
    if not data or len(data) % 4 or len(data) > 4 * MOST_WIDTH:
        hint = "It is base64 of float32 numbers: write it with vector_text."
        raise InputError("The vector of an edit cannot be read.", shown(text), hint)
    numbers = np.frombuffer(data, "<f4").astype(np.float32)
    _check_finite(numbers)
    return numbers


def ranges(text: str) -> tuple[tuple[int, int | None], ...]:
    """Read positions as half-open ranges: "0,3-5,8-" is ((0, 1), (3, 6), (8, None)); None: to the end of the text.

    A range without an end includes every token that is generated later. Raises InputError for anything else, and
    unless the ranges ascend without sharing a position.
    """
    parts = text.split(",") if isinstance(text, str) else []
    found: list[tuple[int, int | None]] = []
    for part in parts[: MOST_RANGES + 1]:
        match = _RANGE.fullmatch(part)
        low = int(match[1]) if match else -1
        high = None if match and match[2] == "-" else int(match[3]) + 1 if match and match[3] else low + 1
        past = found[-1][1] if found else 0
        if match is None or past is None or low < past or (high is not None and high <= low):
            found = []
            break
        found.append((low, high))
    if not 0 < len(found) <= MOST_RANGES:
        hint = 'Write ascending positions and ranges, such as "0,3-5" or "4-".'
        raise InputError("The positions of an edit cannot be read.", shown(text), hint)
    return tuple(found)


def _check_finite(numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        at = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError("A vector has numbers that are not finite.", f"entry {at}", "Give finite numbers.")
