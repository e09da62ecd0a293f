"""One head over a corpus: metrics of every sequence, tokens, distances and kinds that it attends to, and its outputs.

The first query of each sequence attends only to itself and is not counted. Weights are sums over the other queries,
compared with a head that attends equally to every key it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.api import LanguageModel
from model.arguments import check_head
from model.attention.circuits import circuit_overlaps
from model.attention.measures import visible_keys
from model.corpus.jobs import Jobs, jobs_of
from model.corpus.kinds import KINDS
from model.corpus.maps import Batch, read_batches, uniform
from model.corpus.texts import Corpus
from model.gpt.config import ModelConfig
from model.gpt.mixers.needs import need_scores
from model.gpt.transformer import output_matrix
from model.progress import Progress, silent
from model.public import MOST, MOST_SEED, public, whole
from model.tracing.head_metrics import find_repeats, head_metrics, rows_from_pattern

CODES = 255  # an example's weights are stored in steps of 1 / CODES
MOST_OUTPUTS = 800  # outputs of the head that are compared


@dataclass(frozen=True, eq=False)
class TokenUse:
    """The attention from and to each token that occurs in the corpus, without its first tokens.

    A query counts with its weight on other keys than the first token and itself: at these a head rests when it has
    nothing to read. A key counts with the weight that other tokens put on it. `*_uniform` are the same of uniform
    attention; both sides sum to the same kind of total, so that the ratio of shares is the lift.
    """

    ids: np.ndarray  # [U]
    counts: np.ndarray  # [U], occurrences
    query: np.ndarray  # [U] float64
    query_uniform: np.ndarray
    key: np.ndarray
    key_uniform: np.ndarray

    def lift(self, side: str) -> np.ndarray:
        """Return the token's share of the weight over its share under uniform attention, for "query" or "key". [U]"""
        own, even = getattr(self, side), getattr(self, f"{side}_uniform")
        total = own.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            return (own / total) / (even / even.sum())


@dataclass(frozen=True, eq=False)
class HeadReading:
    """One head over a corpus."""

    layer: int
    head: int
    metrics: np.ndarray  # [N, len(HEAD_METRICS)] float32, NaN where undefined
    distances: np.ndarray  # [T] float64, weight by distance; their sum is the number of queries
    distances_uniform: np.ndarray  # [T]
    kinds: np.ndarray  # [K, K] float64, weight by kind of query and key
    kinds_uniform: np.ndarray  # [K, K]
    tokens: TokenUse
    jobs: Jobs
    divergence: np.ndarray  # [L, H] mean Jensen-Shannon divergence of each head's rows from this one's, in bits
    ov: np.ndarray  # [L, H] cosine of the W_OV, from the weights; NaN where layers differ in size
    qk: np.ndarray  # [L, H] cosine of the W_QK
    codes: np.ndarray  # [N, T (T + 1) / 2] uint8, the head's weights on earlier keys and itself, row by row

    def pattern(self, sequence: int) -> np.ndarray:
        """Return the head's map on a sequence, rounded to 1 / CODES. float32 [T, T]"""
        T = len(self.distances)
        whole_map = np.zeros((T, T), np.float32)
        whole_map[np.tril_indices(T)] = self.codes[sequence] / np.float32(CODES)
        return whole_map

    def row(self, sequence: int, position: int) -> np.ndarray:
        """Return the head's weights at one position of a sequence, rounded to 1 / CODES. float32 [position + 1]"""
        start = position * (position + 1) // 2
        return self.codes[sequence, start : start + position + 1] / np.float32(CODES)

    def read_at(self, corpus: Corpus, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Sum what the head reads at some places [P, 2] (sequence, position) of the corpus.

        Returns the ids of the keys [n], the weight on each [n], without weights at rest on the first token or on the
        token itself; the mean weight at rest; and the mean distance of the attention.
        """
        weights, rest, distance = np.zeros(corpus.ids.max(initial=0) + 1), 0.0, 0.0
        for sequence, position in places.tolist():
            row = self.row(sequence, position).astype(np.float64)
            row /= max(row.sum(), 1e-30)
            distance += float(row @ (position - np.arange(position + 1)))
            working = row[corpus.first : position]
            rest += 1 - float(working.sum())
            np.add.at(weights, corpus.ids[sequence, corpus.first : position], working)
        keys, n = np.flatnonzero(weights), max(len(places), 1)
        return keys, weights[keys], rest / n, distance / n


class HeadSums:
    """The sums of a head over the batches read so far."""

    def __init__(self, config: ModelConfig, corpus: Corpus, layer: int, head: int) -> None:
        N, T = corpus.ids.shape
        self.corpus, self.layer, self.head = corpus, layer, head
        self.used, self.token = np.unique(corpus.ids, return_inverse=True)
        self.token = self.token.reshape(N, T)
        self.metrics: list[Tensor] = []
        self.distances = np.zeros((2, T))
        self.kinds = np.zeros((2, len(KINDS) ** 2))
        self.tokens = np.zeros((2, 2, len(self.used)))  # head and uniform; query and key
        self.codes: list[np.ndarray] = []
        self.divergence = np.zeros((config.n_layer, config.n_head))
        self.even = uniform(visible_keys(config, layer, T))
        self.apart = np.abs(np.arange(T)[:, None] - np.arange(T))
        self.resting = np.eye(T, dtype=bool)
        self.resting[:, : corpus.first] = True
        self.tril = np.tril_indices(T)

    def add(self, batch: Batch) -> None:
        """Add a batch."""
        pattern = batch.patterns[self.layer][:, self.head]  # [B, T, T]
        for ids, own in zip(self.corpus.ids[batch.rows], pattern, strict=True):
            repeats = find_repeats(torch.from_numpy(ids))
            self.metrics.append(head_metrics(rows_from_pattern(own[None], repeats), repeats)[0])
        weights = pattern.double().numpy()
        self.codes.append((weights[:, *self.tril] * CODES + 0.5).astype(np.uint8))
        kinds, token = self.corpus.kinds[batch.rows].astype(np.int64), self.token[batch.rows]
        pairs = kinds[:, :, None] * len(KINDS) + kinds[:, None]
        even = np.broadcast_to(self.even, weights.shape)
        for at, each in enumerate((weights, even)):
            rows = each[:, 1:]  # [B, T - 1, T]
            self.distances[at] += np.bincount(self.apart[1:].ravel(), rows.sum(0).ravel(), len(self.apart))
            self.kinds[at] += np.bincount(pairs[:, 1:].ravel(), rows.ravel(), len(KINDS) ** 2)
            working = np.where(self.resting, 0, each)[:, 1:]
            self.tokens[at, 0] += np.bincount(token[:, 1:].ravel(), working.sum(2).ravel(), len(self.used))
            self.tokens[at, 1] += np.bincount(token.ravel(), working.sum(1).ravel(), len(self.used))
        for layer, others in batch.patterns.items():
            self.divergence[layer] += divergences(pattern[:, None], others)[:, :, 1:].sum((0, 2)).double().numpy()

    @property
    def shares(self) -> np.ndarray:
        """The share of the weight by kind of query and key so far. [K, K]"""
        return (self.kinds[0] / max(self.kinds[0].sum(), 1e-30)).reshape(len(KINDS), -1)

    def uses(self) -> TokenUse:
        """Return the sums by token, without the tokens that only begin sequences."""
        counts = np.bincount(self.token[:, self.corpus.first :].ravel(), minlength=len(self.used))
        keep = counts > 0
        (query, key), (query_even, key_even) = self.tokens[:, :, keep]
        return TokenUse(self.used[keep], counts[keep], query, query_even, key, key_even)


def divergences(one: Tensor, others: Tensor) -> Tensor:
    """Compute the Jensen-Shannon divergence of rows of attention, 0 for equal rows to 1 for disjoint ones, in bits.

    [..., S] and [..., S] -> [...]. Rows are scaled to sum to 1. Lin 1991; of heads: Clark et al. 2019, section 6.
    """
    tiny = torch.finfo(one.dtype).tiny
    p, q = (each / each.sum(-1, keepdim=True).clamp(min=tiny) for each in (one, others))
    entropies = [torch.special.entr(each).sum(-1) for each in ((p + q) / 2, p, q)]
    return ((entropies[0] - (entropies[1] + entropies[2]) / 2) / np.log(2)).clamp(0, 1)


@public(batch=whole(1, MOST), clusters=whole(1, 8), seed=whole(0, MOST_SEED))
def read_head(
    lm: LanguageModel,
    corpus: Corpus,
    layer: int,
    head: int,
    *,
    clusters: int = 3,
    seed: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
    see: Callable[[np.ndarray], None] | None = None,
) -> HeadReading:
    """Read one head over a corpus, in one pass; `see` gets the shares by kind of query and key so far, [K, K].

    `clusters` and `seed` are those of the k-means on the head's outputs. The result does not depend on `batch`, up to
    rounding. Raises InputError for a layer or head that does not exist or without attention.
    """
    need_scores(lm.config, layer)
    check_head(head, lm.config.n_head)
    sums, outputs = HeadSums(lm.config, corpus, layer, head), []
    for each in read_batches(lm.model, corpus, sites=(("z", layer),), batch=batch, progress=progress):
        sums.add(each)
        outputs.append(each.sites["z", layer][:, head].float())
        if see is not None:
            see(sums.shares)
    z = torch.cat(outputs)  # [N, T, E]
    N, T = corpus.ids.shape
    divergence = sums.divergence / (N * max(T - 1, 1))
    divergence[[at for at in range(lm.config.n_layer) if not lm.config.is_attention(at)]] = np.nan
    unknown = np.full_like(divergence, np.nan, np.float32)
    ov, qk = circuit_overlaps(lm.model, layer, head) if lm.config.alone else (unknown, unknown)
    o = output_matrix(lm.model, layer).float().unflatten(1, (lm.config.n_head, -1))[:, head]  # [D, E]
    places = output_places(corpus)
    return HeadReading(
        layer,
        head,
        torch.stack(sums.metrics).numpy(),
        *sums.distances,
        *sums.kinds.reshape(2, len(KINDS), -1),
        sums.uses(),
        jobs_of((z[places[:, 0], places[:, 1]] @ o.T).numpy(), places, clusters, seed),
        divergence,
        ov,
        qk,
        np.concatenate(sums.codes),
    )


def output_places(corpus: Corpus) -> np.ndarray:
    """Return the sequence and position of the outputs that are compared, spread over the corpus. [P, 2]"""
    N, T = corpus.ids.shape
    every = np.array([(n, t) for n in range(N) for t in range(corpus.first, T)], dtype=np.int64)
    step = max(len(every) / MOST_OUTPUTS, 1.0)
    return every[np.arange(0, len(every), step).astype(np.int64)[:MOST_OUTPUTS]]
