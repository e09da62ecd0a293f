"""Checks of attention weights: finite, not negative, and rows that sum to 1."""

import numpy as np

from model.errors import InputError, Message, say

_NEGATIVE = -1e-6  # a smaller weight is no rounding error
_SOFTMAX = "Apply a softmax over the last axis, or take the weights after it."


def check(weights: np.ndarray, tolerance: float) -> None:
    """Raise InputError unless every row is a distribution. float32 [L, H, T, S]

    tolerance: the largest rounding error of a row's sum. A row that is 0 everywhere is accepted: its token attends to
    nothing.
    """
    if np.isneginf(weights).any():
        raise InputError("These look like scores before the softmax.", _where(np.isneginf(weights), "-inf"), _SOFTMAX)
    if np.isnan(weights).any():
        raise InputError(
            "The attention has values that are not numbers.",
            _where(np.isnan(weights), "NaN"),
            "Rows of padding can be NaN: give padding=, with 1 for a token and 0 for padding.",
        )
    if np.isinf(weights).any():
        raise InputError(
            "The attention has infinite values.", _where(np.isinf(weights), "inf"), "Compute it in float32."
        )
    if (negative := weights < _NEGATIVE).any():
        worst = f"{float(weights[_first(negative)]):.4g}"
        raise InputError("These look like scores before the softmax.", _where(negative, worst), _SOFTMAX)
    sums = weights.sum(-1, dtype=np.float64)
    off = (np.abs(sums - 1) > tolerance) & (sums != 0)
    if not off.any():
        return
    l, h, i = _first(off)
    got = say("layer {}, head {}, row {}: {}", l, h, i, f"{sums[l, h, i]:.4g}")
    columns = weights.sum(-2, dtype=np.float64)
    if (np.abs(columns - 1) <= tolerance).all():
        raise InputError(
            "The columns sum to 1 instead of the rows.",
            got,
            "Exchange the last two axes: rows are queries, columns are keys.",
        )
    if weights.max() > 1 + tolerance and off.mean() > 0.5:
        raise InputError("These look like scores before the softmax.", got, _SOFTMAX)
    raise InputError(
        "A row does not sum to 1.",
        got,
        "Dropout changes the sums: call model.eval() before the run. The weight of an attention sink counts, too: give "
        "it as one more key.",
    )


def cleaned(weights: np.ndarray) -> tuple[np.ndarray, tuple[Message, ...]]:
    """Return weights within 0 and 1, and a note on rows without any weight."""
    empty = int((weights.sum(-1) == 0).sum())
    notes = (say("{} rows are 0 everywhere: these tokens attend to nothing there.", empty),) if empty else ()
    return np.clip(weights, 0, 1), notes


def is_causal(weights: np.ndarray) -> bool:
    """Return whether no token attends to a later one. [L, H, T, T]"""
    later = np.triu(np.ones(weights.shape[-2:], bool), 1)
    return not weights[..., later].any()


def _first(found: np.ndarray) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(int(found.argmax()), found.shape))


def _where(found: np.ndarray, value: str) -> Message:
    l, h, i, j = _first(found)
    return say("layer {}, head {}, row {}, column {}: {}", l, h, i, j, value)
