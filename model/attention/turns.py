"""Per-token values, summed over the tokens of each conversation turn."""

import numpy as np

from model.public import array, public, whole
from model.text.chat_places import TEMPLATE


@public(values=array(), turns=array("T"), count=whole(0))
def by_turn(values: np.ndarray, turns: np.ndarray, count: int) -> np.ndarray:
    """Sum `values` [..., S] over the tokens of each turn; the last entry is for tokens of the template. [..., count +
    1]

    `turns` [S] is 0 to count - 1, or -1 for the template. The sum of each row is preserved, so a row of attention still
    sums to 1. Raises ValueError if the lengths differ or a turn is out of range.
    """
    if values.shape[-1] != len(turns):
        raise ValueError(f"values of {values.shape[-1]} tokens, turns of {len(turns)}")
    if len(turns) and not TEMPLATE <= turns.min() <= turns.max() < count:
        raise ValueError(f"turns from {turns.min()} to {turns.max()}, {count} of them")
    at = np.where(turns == TEMPLATE, count, turns)
    return values.astype(np.float64) @ (at[:, None] == np.arange(count + 1))
