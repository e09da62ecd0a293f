"""Metrics and a thumbnail of every head on one prompt, defined on a complete attention pattern.

model.tracing.head_reducer computes the same while the model runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

THUMBNAIL = 64  # maximum number of rows and columns of a thumbnail
MASKED = 255  # thumbnail code of a block entirely in the future


@dataclass(frozen=True)
class RowStats:
    """Statistics of each attention row. Each field is [H, T], by head and query position.

    Where a learned sink takes part of a row, the weights A on tokens sum to less than 1. Weights on tokens are given as
    they are; entropy and distance are those of P = A / sum A, of what the head reads at all.
    """

    previous: Tensor  # weight on the previous token; 0 in row 0
    own: Tensor  # weight on the token itself
    first: Tensor  # weight on token 0
    entropy: Tensor  # -sum P ln P, nats
    distance: Tensor  # sum over j of P[i, j] |i - j|, tokens
    duplicate: Tensor  # weight on earlier copies of the same token
    induction: Tensor  # weight on the tokens that followed earlier copies


@dataclass(frozen=True)
class HeadMetric:
    """A metric with one number per head: `function` maps the rows and the prompt's repeats to [H]."""

    low: float
    high: float  # upper end of the metric's range; math.inf if it grows with the prompt
    unit: str
    source: str
    function: Callable[[RowStats, "Repeats"], Tensor]


@dataclass(frozen=True)
class Repeats:
    """All pairs of positions with the same token, sorted by query."""

    query: Tensor  # [P] int64
    key: Tensor  # [P] int64, key < query and ids[key] == ids[query]
    T: int
    two_way: bool = False  # whether later keys are visible

    def rows(self, shift: int) -> Tensor:
        """Return the queries for which the position `shift` after an earlier copy precedes the query. [T] bool"""
        has = torch.zeros(self.T, dtype=torch.bool)
        has[self.query[self.key + shift < self.query]] = True
        return has


def find_repeats(ids: Tensor, *, two_way: bool = False) -> Repeats:
    """Find all pairs of equal tokens; `two_way` says that later keys are visible. ids [T]"""
    same = (ids[:, None] == ids[None, :]).tril_(-1)
    query, key = same.nonzero(as_tuple=True)
    return Repeats(query, key, len(ids), two_way)


# --- metrics ---------------------------------------------------------------------------------------


def _mean_after_first(rows: Tensor) -> Tensor:
    """Average over rows 1 .. T-1, because row 0 can only attend to itself. NaN for a single token."""
    return rows[:, 1:].mean(-1)


def _normalized_entropy(stats: RowStats, repeats: Repeats) -> Tensor:
    keys = torch.arange(2, repeats.T + 1, dtype=torch.float32)  # number of visible keys of each row but the first
    most = (torch.full_like(keys, repeats.T) if repeats.two_way else keys).log()  # the entropy of a uniform row
    return (stats.entropy[:, 1:] / most).mean(-1)


def _mean_over(rows: Tensor, chosen: Tensor) -> Tensor:
    """Average over the selected rows; NaN for an empty selection, in which a metric of repeats is undefined."""
    return rows[:, chosen].mean(-1)


HEAD_METRICS: dict[str, HeadMetric] = {
    "previous_token": HeadMetric(
        0,
        1,
        "share",
        "Olsson et al. 2022",
        lambda stats, repeats: _mean_after_first(stats.previous),
    ),
    "self": HeadMetric(
        0,
        1,
        "share",
        "Clark et al. 2019",
        lambda stats, repeats: _mean_after_first(stats.own),
    ),
    "first_token": HeadMetric(
        0,
        1,
        "share",
        "Xiao et al. 2023",
        lambda stats, repeats: _mean_after_first(stats.first),
    ),
    "entropy": HeadMetric(
        0,
        1,
        "share of maximum",
        "Ghader & Monz 2017",
        _normalized_entropy,
    ),
    "effective_span": HeadMetric(
        1,
        math.inf,
        "tokens",
        "exponential of the Shannon entropy",
        lambda stats, repeats: _mean_after_first(stats.entropy.exp()),
    ),
    "distance": HeadMetric(
        0,
        math.inf,
        "tokens",
        "Vig & Belinkov 2019",
        lambda stats, repeats: stats.distance.mean(-1),
    ),
    "duplicate_token": HeadMetric(
        0,
        1,
        "share",
        "Wang et al. 2022",
        lambda stats, repeats: _mean_over(stats.duplicate, repeats.rows(0)),
    ),
    "induction": HeadMetric(
        0,
        1,
        "share",
        "Olsson et al. 2022",
        lambda stats, repeats: _mean_over(stats.induction, repeats.rows(1)),
    ),
}


def head_metrics(stats: RowStats, repeats: Repeats) -> Tensor:
    """Compute all metrics of HEAD_METRICS, in the same order. [H, len(HEAD_METRICS)]"""
    return torch.stack([metric.function(stats, repeats) for metric in HEAD_METRICS.values()], dim=-1)


# --- reference: from a complete pattern ------------------------------------------------------------


def rows_from_pattern(pattern: Tensor, repeats: Repeats) -> RowStats:
    """Compute the row statistics directly from their definitions; 0 for a row without weight. pattern [H, T, T]"""
    H, T, _ = pattern.shape
    read = pattern / pattern.sum(-1, keepdim=True).clamp(min=torch.finfo(pattern.dtype).tiny)
    own = pattern.diagonal(dim1=1, dim2=2)
    previous = torch.zeros(H, T)
    previous[:, 1:] = pattern.diagonal(-1, dim1=1, dim2=2)
    offset = (torch.arange(T)[:, None] - torch.arange(T)[None, :]).abs()  # [T, S], tokens between query and key
    return RowStats(
        previous=previous,
        own=own.clone(),
        first=pattern[:, :, 0].clone(),
        entropy=torch.special.entr(read).sum(-1),
        distance=(read * offset).sum(-1),
        duplicate=_weight_on(pattern, repeats, 0),
        induction=_weight_on(pattern, repeats, 1),
    )


def _weight_on(pattern: Tensor, repeats: Repeats, shift: int) -> Tensor:
    """Sum each row's weight on the keys `shift` after an earlier copy and before the query itself. [H, T]"""
    keep = repeats.key + shift < repeats.query
    query, key = repeats.query[keep], repeats.key[keep] + shift
    return torch.zeros(pattern.shape[:2]).index_add_(1, query, pattern[:, query, key])


def thumbnails_from_pattern(pattern: Tensor, *, two_way: bool = False) -> Tensor:
    """Pool the maximum of the weights' square roots, as codes 0 .. 254; MASKED above the diagonal unless `two_way`.
    [H, T, T] -> uint8 [H, t, t]
    """
    H, T, _ = pattern.shape
    k = pool_size(T)
    t = -(-T // k)
    padded = torch.zeros(H, t * k, t * k)
    padded[:, :T, :T] = pattern
    return encode(padded.view(H, t, k, t, k).amax((2, 4)), two_way=two_way)


def pool_size(T: int) -> int:
    """Return the number of tokens per side of a thumbnail cell."""
    return -(-T // THUMBNAIL)


def encode(weights: Tensor, *, two_way: bool = False) -> Tensor:
    """Map weights to 0 .. 254 on a square-root ramp, which makes small weights visible; future blocks become MASKED
    unless `two_way`.

    The r rows are the last ones of t. [H, r, t]
    """
    codes = (weights.sqrt() * 254 + 0.5).to(torch.uint8).clamp_(max=254)
    r, t = codes.shape[-2:]
    if two_way:
        return codes
    return codes.masked_fill_(torch.ones(r, t, dtype=torch.bool).triu_(t - r + 1), MASKED)


def metrics_table(metrics: np.ndarray) -> pd.DataFrame:
    """Return a table of all heads, indexed by (layer, head), with a column for each of HEAD_METRICS. metrics [L, H,
    len(HEAD_METRICS)]
    """
    L, H, n = metrics.shape
    index = pd.MultiIndex.from_product([range(L), range(H)], names=["layer", "head"])
    return pd.DataFrame(metrics.reshape(L * H, n), index=index, columns=list(HEAD_METRICS))
