"""Search for heads by a pattern of token kinds: how much of their attention falls on such pairs of tokens.

One pass sorts all attention of all heads by the kinds of query and key, whether they are the same token, and the
distance between them; any such question is then a sum of these cells.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.arguments import shown
from model.attention.measures import visible_keys
from model.corpus.kinds import KINDS
from model.corpus.maps import Batch, read_batches, uniform
from model.corpus.texts import Corpus
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.progress import Progress, silent
from model.public import MOST, public, whole

ANY = "any"
SAME = ("yes", "no")
# Distances between query and key in tokens, from and to; None: without end.
STEPS: tuple[tuple[int, int | None], ...] = ((0, 0), (1, 1), (2, 4), (5, 16), (17, None))
APART = {
    "earlier": (1, 2, 3, 4),
    ANY: (0, 1, 2, 3, 4),
    "self": (0,),
    "previous": (1,),
    "near": (2,),
    "middle": (3,),
    "far": (4,),
}  # ranges as places in STEPS
# Query kind, whether the token occurred before in the sequence, key kind, whether both are the same token, STEPS.
_SHAPE = (len(KINDS), 2, len(KINDS), 2, len(STEPS))


@dataclass(frozen=True, eq=False)
class PairWeights:
    """The attention weight of every head by query kind, whether the query's token occurred before in its sequence (C),
    key kind, different or same token (S), and place in STEPS (R).

    Queries are the tokens after the first of each sequence. The cells of a head sum to the number of queries, unless a
    learned sink takes part of the rows. `uniform` is the same for a head that attends equally to all keys it sees.
    """

    weights: np.ndarray  # [L, H, K, C, K, S, R] float64, NaN for layers without attention
    uniform: np.ndarray  # [L, K, C, K, S, R] float64
    queries: np.ndarray  # [K, C] int64, number of queries


@dataclass(frozen=True, eq=False)
class Found:
    """The share of each head's attention that falls on a pattern, of the attention of the queries of its kind."""

    shares: np.ndarray  # [L, H], 0 to 1; NaN for layers without attention
    expected: np.ndarray  # [L], the share of uniform attention
    queries: int  # number of queries of the kind

    @property
    def order(self) -> list[tuple[int, int]]:
        """All heads (layer, head) by decreasing share, without those of layers that have no attention."""
        flat = self.shares.ravel()
        ranked = [int(at) for at in np.argsort(-flat, kind="stable") if np.isfinite(flat[at])]
        return [divmod(at, self.shares.shape[1]) for at in ranked]


class PairCounter:
    """Sums of `PairWeights`, filled batch by batch."""

    def __init__(self, config: ModelConfig, corpus: Corpus) -> None:
        self.config, self.corpus = config, corpus
        T = corpus.ids.shape[1]
        cells = (config.n_layer, config.n_head, int(np.prod(_SHAPE)))
        self.weights = np.zeros(cells)
        self.uniform = np.zeros((cells[0], cells[2]))
        distance = np.abs(np.arange(T)[:, None] - np.arange(T))
        self.steps = np.searchsorted([low for low, _ in STEPS], distance, side="right") - 1  # [T, T]
        self.copied = np.tril(corpus.ids[:, :, None] == corpus.ids[:, None], -1).any(2).astype(np.int64)  # [N, T]

    def cells(self, rows: slice) -> np.ndarray:
        """Return the cell of each pair of query and key, as an index into the flat cells of a head. [B, T, T]"""
        ids, kinds = self.corpus.ids[rows], self.corpus.kinds[rows].astype(np.int64)
        same = (ids[:, :, None] == ids[:, None]).astype(np.int64)
        parts = (kinds[:, :, None], self.copied[rows][:, :, None], kinds[:, None], same, self.steps[None])
        return np.ravel_multi_index(np.broadcast_arrays(*parts), _SHAPE)

    def add(self, batch: Batch) -> None:
        """Add the maps of a batch."""
        cells = self.cells(batch.rows)[:, 1:]
        n = self.uniform.shape[1]
        for layer, pattern in batch.patterns.items():
            seen = visible_keys(self.config, layer, cells.shape[2])[1:]
            at = cells[:, seen].ravel()
            even = uniform(seen)[seen]
            self.uniform[layer] += np.bincount(at, np.tile(even, len(cells)), n)
            weights = pattern[:, :, 1:].numpy()[:, :, seen]  # [B, H, visible pairs]
            sums = [np.bincount(at, weights[:, head].ravel(), n) for head in range(self.config.n_head)]
            self.weights[layer] += sums

    def finish(self) -> PairWeights:
        """Return the sums."""
        L, H, _ = self.weights.shape
        weights = self.weights.copy()
        weights[[layer for layer in range(L) if not self.config.is_attention(layer)]] = np.nan
        both = 2 * self.corpus.kinds[:, 1:].astype(np.int64) + self.copied[:, 1:]
        queries = np.bincount(both.ravel(), minlength=2 * len(KINDS)).reshape(-1, 2)
        return PairWeights(weights.reshape(L, H, *_SHAPE), self.uniform.reshape(L, *_SHAPE), queries)


@public(batch=whole(1, MOST))
def pair_weights(
    lm: LanguageModel,
    corpus: Corpus,
    *,
    batch: int | None = None,
    progress: Progress = silent,
    see: Callable[[PairWeights], None] | None = None,
) -> PairWeights:
    """Sort the attention of all heads over a corpus by kinds of tokens and distance.

    `see` gets the sums so far after each batch. The result does not depend on `batch`, up to rounding.
    """
    counter = PairCounter(lm.config, corpus)
    for each in read_batches(lm.model, corpus, batch=batch, progress=progress):
        counter.add(each)
        if see is not None:
            see(counter.finish())
    return counter.finish()


@public()
def search(pairs: PairWeights, query: str = ANY, key: str = ANY, same: str = ANY, apart: str = "earlier") -> Found:
    """Rank heads by the attention from queries of one kind to keys of another.

    `query` and `key` are names of KINDS or any; `same` (yes, no or any): whether query and key are the same token;
    `apart` is a name of APART. The share of a head is its weight on such pairs over the weight of all queries of that
    kind; for the same token, only queries whose token occurred before in their sequence count, unless `apart` includes
    the query itself. `expected` is the share of uniform attention over the keys that the head sees. NaN without such a
    query. Raises InputError for an unknown name.
    """
    q, k, s = (_places(query, KINDS), _places(key, KINDS), _places(same, ("no", "yes")))
    if apart not in APART:
        raise InputError("No range of distances has this name.", shown(apart), say("Ranges: {}.", ", ".join(APART)))
    copied = [1] if same == "yes" and 0 not in APART[apart] else [0, 1]
    asked = np.ix_(q, copied, range(len(KINDS)), range(2), range(len(STEPS)))
    chosen = np.ix_(q, copied, k, s, list(APART[apart]))
    number = int(pairs.queries[np.ix_(q, copied)].sum())
    own, even = pairs.weights, pairs.uniform[:, None]  # the head's axis

    def share(weights: np.ndarray) -> np.ndarray:
        total, part = (weights[(..., *places)].sum((-5, -4, -3, -2, -1)) for places in (asked, chosen))
        return np.divide(part, total, out=np.full(part.shape, np.nan), where=total > 0)

    return Found(share(own), share(even)[:, 0], number)


def _places(name: str, names: tuple[str, ...]) -> list[int]:
    if name == ANY:
        return list(range(len(names)))
    if name not in names:
        raise InputError("No kind of token has this name.", shown(name), say("Kinds: {}.", ", ".join((ANY, *names))))
    return [names.index(name)]
