"""Alignment of two token lists, and the differences between matrices over aligned tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from model.records import Tokens
from viz.labels import visible


@dataclass(frozen=True)
class AlignedPair:
    """One step of an alignment: a token of A, a token of B, or a pair of one of each. `a` and `b` are positions."""

    kind: Literal["same", "replaced", "only_a", "only_b"]
    a: int | None
    b: int | None


@dataclass(frozen=True)
class Alignment:
    """An alignment of two token lists: ordered steps in which each token of both lists occurs exactly once."""

    steps: tuple[AlignedPair, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of corresponding positions (in A, in B), those of equal tokens and of replaced tokens."""
        return [(step.a, step.b) for step in self.steps if step.a is not None and step.b is not None]

    def count(self, kind: str) -> int:
        """Count the steps of the given kind."""
        return sum(step.kind == kind for step in self.steps)


def align(a: Sequence, b: Sequence) -> Alignment:
    """Align `a` and `b` by a longest common subsequence of tokens that are equal under `==`.

    Where equally many tokens lie between two matched ones in both lists, they are paired as replaced, in order.
    Otherwise
    they have no counterpart. O(len(a) len(b)). Source: Wagner & Fischer 1974.
    """
    start, end = _common(a, b), 0
    if start < min(len(a), len(b)):
        end = _common(a[start:][::-1], b[start:][::-1])
    middle = _longest(a[start : len(a) - end], b[start : len(b) - end])
    pairs = [(n, n) for n in range(start)] + [(start + i, start + j) for i, j in middle]
    pairs += [(len(a) - n, len(b) - n) for n in range(end, 0, -1)]
    steps: list[AlignedPair] = []
    i = j = 0
    for to_i, to_j in [*pairs, (len(a), len(b))]:
        steps += _between(range(i, to_i), range(j, to_j))
        if (to_i, to_j) != (len(a), len(b)):
            steps.append(AlignedPair("same", to_i, to_j))
        i, j = to_i + 1, to_j + 1
    return Alignment(tuple(steps))


def _common(a: Sequence, b: Sequence) -> int:
    """Return the length of the longest common prefix of two lists."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _between(a: range, b: range) -> list[AlignedPair]:
    """Return the steps for the tokens between two matched ones."""
    if len(a) == len(b):
        return [AlignedPair("replaced", i, j) for i, j in zip(a, b, strict=True)]
    return [AlignedPair("only_a", i, None) for i in a] + [AlignedPair("only_b", None, j) for j in b]


def _longest(a: Sequence, b: Sequence) -> list[tuple[int, int]]:
    """Find the index pairs of a longest common subsequence."""
    codes = {token: n for n, token in enumerate(dict.fromkeys([*a, *b]))}
    x, y = (np.array([codes[token] for token in tokens], np.int64) for tokens in (a, b))
    length = np.zeros((len(x) + 1, len(y) + 1), np.int32)  # [i, j]: length for the first i and j tokens
    for i in range(len(x)):
        extended = np.maximum(length[i, 1:], length[i, :-1] + (y == x[i]))
        length[i + 1, 1:] = np.maximum.accumulate(extended)
    pairs, i, j = [], len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif length[i - 1, j] >= length[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def difference(a: np.ndarray, b: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Compute A - B at the cells whose query and key both have a counterpart, NaN at all others. float32 [Ta, Ta]

    Cell (pairs[m].a, pairs[n].a) is a[pairs[m].a, pairs[n].a] - b[pairs[m].b, pairs[n].b]. a [Ta, Ta], b [Tb, Tb]
    """
    result = np.full(a.shape, np.nan, np.float32)
    if pairs:
        i, j = np.array(pairs).T
        result[np.ix_(i, i)] = a[np.ix_(i, i)] - b[np.ix_(j, j)]
    return result


def gaps(a: np.ndarray, b: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Compute the mean |A - B| of each head over the aligned cells whose key is not after the query. float32 [H]

    NaN if no tokens are aligned. Equals nanmean(|difference|) for maps that are NaN above the diagonal. a [H, Ta, Ta],
    b [H, Tb, Tb]
    """
    if not pairs:
        return np.full(len(a), np.nan, np.float32)
    i, j = np.array(pairs).T
    distance = np.abs(a[:, i[:, None], i] - b[:, j[:, None], j])
    return np.tril(distance).sum((1, 2)) / np.float32(len(i) * (len(i) + 1) / 2)


def nearest(numbers: np.ndarray, others: np.ndarray) -> tuple[int, int]:
    """Find the head of `others` [L, H, n] with the smallest mean absolute difference from `numbers` [n].

    The mean omits differences that are not finite.
    """
    distance = np.abs(others - numbers)
    finite = np.isfinite(distance)
    mean = np.where(finite, distance, 0).sum(-1) / np.maximum(finite.sum(-1), 1)
    mean[~finite.any(-1)] = np.inf
    layer, head = np.unravel_index(mean.argmin(), mean.shape)
    return int(layer), int(head)


def by_position(a: Sequence, b: Sequence) -> Alignment:
    """Align two lists of equal length position by position."""
    pairs = enumerate(zip(a, b, strict=True))
    return Alignment(tuple(AlignedPair("same" if x == y else "replaced", i, i) for i, (x, y) in pairs))


def merged(a: Tokens, b: Tokens, alignment: Alignment) -> Tokens:
    """Return the tokens of A, where the text of a replaced token shows those of both lists."""
    pieces = list(a.pieces)
    for step in alignment.steps:
        if step.kind == "replaced":
            pieces[step.a] = f"{visible(a.pieces[step.a])} / {visible(b.pieces[step.b])}"
    return Tokens(a.ids, tuple(pieces), a.raw, a.spans)
