"""Per-token values, summed over the tokens of each turn of a conversation, or of each sentence of a plain prompt."""

import numpy as np

from model.public import array, public, whole
from model.records import Tokens
from model.text.chat_places import TEMPLATE
from model.text.sentences import sentence_ends

MOST_SENTENCES = 12


@public(most=whole(1))
def sentences(tokens: Tokens, most: int = MOST_SENTENCES) -> np.ndarray:
    """Number the sentences of a plain prompt from 0. [T]

    The first token is apart, as -1: many heads rest on it. A token that spans two sentences belongs to the one in which
    it begins. More than `most` sentences are joined to that many groups of neighbors.
    """
    text = b"".join(tokens.raw).decode(errors="surrogateescape")
    ends = [len(text[:end].encode(errors="surrogateescape")) for end in sentence_ends(text)]
    places = np.searchsorted(ends, tokens.spans[1:, 0], side="right")
    _, places = np.unique(places, return_inverse=True)  # leave out sentences in which no token begins
    count = int(places.max(initial=-1)) + 1
    if count > most:
        places = places * most // count
    return np.concatenate([np.full(min(1, len(tokens)), TEMPLATE), places])


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
