"""Dependence of a head's scores on the distance from query to key, and the part explained by positions alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_layer
from model.attention.measures import attend_rows, query_chunks
from model.gpt.layers import NORMS, future, rotate, sinusoidal_positions, split_heads
from model.gpt.norm import Norm
from model.tracing.trace import Trace

WHOLE = 16  # distances with a bucket of their own
STEP = 2**0.25  # ratio of the ends of neighboring buckets beyond WHOLE
BAND = (10, 90)  # percentiles

Buckets = Sequence[tuple[int, int]]  # first and last distance of each


@dataclass(frozen=True, eq=False)
class ByDistance:
    """One head on one prompt, pooled by distance; NaN for distances without a pair. All [K]."""

    buckets: Buckets
    pairs: np.ndarray  # int64
    median: np.ndarray  # of the scores before the softmax
    low: np.ndarray  # 10%
    high: np.ndarray  # 90%
    mean: np.ndarray
    weight: np.ndarray  # mean attention weight


@dataclass(frozen=True, eq=False)
class Parts:
    """A head's scores as a sum of three; each [T, T], NaN above the diagonal."""

    content: np.ndarray  # token against token
    mixed: np.ndarray  # token against position, and position against token
    position: np.ndarray  # position against position, biases included


def buckets(T: int, whole: int = WHOLE) -> Buckets:
    """Return the distances 0 .. T - 1: single up to `whole` - 1, then in buckets that grow by a quarter of
    an octave.
    """
    ranges = [(d, d) for d in range(min(whole, T))]
    start, end = whole, float(whole)
    while start < T:
        end = max(end * STEP, start + 1)
        last = min(math.ceil(end) - 1, T - 1)
        ranges.append((start, last))
        start = last + 1
    return ranges


def pooled(matrix: np.ndarray, at: tuple[int, int], first: bool) -> np.ndarray:
    """Return the entries of a [T, T] matrix with query minus key in a bucket, without NaN; `first` includes
    key 0. [n]
    """
    skip = 0 if first else 1  # a diagonal begins with key 0
    values = np.concatenate([np.diagonal(matrix, -d)[skip:] for d in range(at[0], at[1] + 1)])
    return values[~np.isnan(values)]


def by_distance(scores: np.ndarray, pattern: np.ndarray, groups: Buckets, *, first: bool = False) -> ByDistance:
    """Return the scores and weights of one head [T, T], pooled by distance; key 0, the sink of many heads, only with
    `first`.

    Raises ValueError for matrices of different shapes.
    """
    if scores.shape != pattern.shape or scores.ndim != 2:
        raise ValueError(f"scores and pattern must be [T, T] both, got {scores.shape} and {pattern.shape}")
    rows = []
    for at in groups:
        values, weights = pooled(scores, at, first).astype(np.float64), pooled(pattern, at, first)
        if len(values):
            low, median, high = np.percentile(values, (BAND[0], 50, BAND[1]))
            rows.append((len(values), median, low, high, values.mean(), weights.mean(dtype=np.float64)))
        else:
            weight = weights.mean(dtype=np.float64) if len(weights) else math.nan
            rows.append((0, *[math.nan] * 4, weight))
    pairs, *statistics = (np.array(column) for column in zip(*rows, strict=True))
    return ByDistance(groups, pairs.astype(np.int64), *statistics)


def over_buckets(values: np.ndarray, groups: Buckets) -> np.ndarray:
    """Return the mean over each bucket of one number per distance, NaN ignored; NaN for a bucket of only NaN. [T] ->
    [K]
    """
    defined = [part[~np.isnan(part)] for part in (values[a : b + 1] for a, b in groups)]
    return np.array([part.mean() if len(part) else np.nan for part in defined])


def uniform_weight(T: int, groups: Buckets, *, first: bool = False) -> np.ndarray:
    """Return the mean weight at each bucket if every token spread its weight evenly: the mean of 1 / (i + 1). [K]"""
    below = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, T + 1))])  # sums of 1 / (i + 1) over the first i
    skip = 0 if first else 1
    starts = np.minimum(np.arange(T) + skip, T)  # queries start at the distance, or one after it
    total, count = below[T] - below[starts], T - starts
    sums = [(total[a : b + 1].sum(), count[a : b + 1].sum()) for a, b in groups]
    return np.array([each / n if n else np.nan for each, n in sums])


def sink_scores(scores: np.ndarray) -> np.ndarray:
    """Return the score of key 0 at each distance: one pair each. [T, T] -> [T]"""
    return scores[:, 0].copy()


def near(pattern: np.ndarray, most: int = 4) -> float:
    """Return the mean over the queries of the weight on keys at most `most` tokens back, itself included. [T, T] -> 0
    to 1
    """
    return float(sum(np.diagonal(pattern, -d).sum(dtype=np.float64) for d in range(most + 1)) / len(pattern))


def share_of_distance(scores: np.ndarray, *, first: bool = False) -> float:
    """Return the fraction of the variance of a head's scores that distance alone explains, 0 to 1.

    NaN if it is undefined: too few scores, or scores that differ by rounding alone, four units in the last place of the
    largest of them. Variance between the mean scores of the distances, corrected for their number: Kelley's epsilon
    squared (1935) = 1 - (N - 1) / (N - K) (1 - eta squared), clipped at 0. scores [T, T], NaN above the diagonal.
    """
    each = [pooled(scores, (d, d), first).astype(np.float64) for d in range(len(scores))]
    each = [values for values in each if len(values)]
    N, K = sum(map(len, each)), len(each)
    if N <= K or K < 2:
        return math.nan
    everything = np.concatenate(each)
    total = everything.var() * N
    within = sum(values.var() * len(values) for values in each)
    rounding = 4 * np.finfo(scores.dtype).eps * np.abs(everything).max()
    if not total > N * rounding**2:
        return math.nan
    return float(max(0.0, 1 - (within / (N - K)) / (total / (N - 1))))


@torch.inference_mode()
def layer_weights(trace: Trace, layer: int, groups: Buckets, *, first: bool = False) -> np.ndarray:
    """Return the mean attention weight of every head of a layer at each bucket of distances, NaN without a
    pair. [H, K]
    """
    check_layer(layer, trace.config.n_layer)
    T, skip = len(trace.tokens), 0 if first else 1
    total = torch.zeros(trace.config.n_head, T)  # [H, distances]
    for queries in query_chunks(trace, range(T)):
        rows = attend_rows(trace, layer, queries)  # [H, n, T]
        rows[:, :, :skip] = 0
        distance = torch.tensor(queries)[:, None] - torch.arange(T)  # [n, T]
        past = distance >= 0
        total.index_add_(1, distance[past], rows[:, past])
    count = torch.arange(T, 0, -1, dtype=torch.float32) - skip  # pairs at each distance
    means = [
        total[:, a : b + 1].sum(1) / n if (n := count[a : b + 1].sum()) else total[:, 0] * math.nan for a, b in groups
    ]
    return torch.stack(means, 1).numpy()


# --- positions alone --------------------------------------------------------------------------------


@torch.inference_mode()
def position_score(trace: Trace, layer: int, head: int, *, first: bool = False) -> np.ndarray | None:
    """Return the score at each distance with the content averaged out, for positions that act in attention only. [T]

    The mean of q_i . R(d) k_j over all pairs of the prompt's queries and keys before rotation, each pair rotated as if
    at distance d. A score is linear in q and in k, so that mean is the score of the mean query and the mean key. RoPE
    (Su et al. 2021, eq. 16); without positions R(d) = 1 and the line is flat. None for positions that are added to the
    stream, and without any key. `first` includes token 0 among keys and queries.
    """
    config, T = trace.config, len(trace.tokens)
    start = 0 if first else 1
    if config.positions not in ("rope", "none") or start >= T:
        return None
    qkv = trace.qkv(layer, head)
    q, k = torch.tensor(qkv.q), torch.tensor(qkv.k)  # [T, E]
    rope = trace.model.prepare(0, T).rope
    if rope is not None:
        cos, sin = rope
        q, k = rotate(q, cos, -sin), rotate(k, cos, -sin)
    q, k = q[start:].mean(0), k[start:].mean(0)
    if rope is None:
        return np.full(T, float(q @ k) / math.sqrt(config.d_head), dtype=np.float32)
    turned = rotate(q.expand(T, -1), *rope)  # the key is at 0, the query at d
    return (turned @ k / math.sqrt(config.d_head)).numpy()


@torch.inference_mode()
def first_layer_parts(trace: Trace, head: int) -> Parts | None:
    """Return the scores of a head of layer 0 split by the summands of its input: token embedding and position vector.

    Exact for positions that are added to the embedding, in a run without edits: the norm's divisor is the model's own
    number for each token, everything else up to q and k is linear, and the three parts add up to the scores. As in
    Elhage et al. 2021, "A mathematical framework for Transformer circuits". None for other models and edited runs.
    After the first layer every vector mixes content and positions, and there is no such split.
    """
    config, model = trace.config, trace.model
    if config.positions not in ("learned", "sinusoidal") or trace.tap is not None or config.mixer_of(0) != "softmax":
        return None
    T, block = len(trace.tokens), model.blocks[0]
    position = (
        sinusoidal_positions(0, T, config.d_model) if model.pos_embed is None else model.pos_embed.weight[:T].detach()
    )
    full = trace.residuals[0]
    kv = head // config.group_size
    sides = []
    for linear, norm, n in ((block.attn.q, block.attn.q_norm, head), (block.attn.k, block.attn.k_norm, kv)):
        inputs = _linear_parts(block.norm1 if not block.post_norm else None, (full - position, position), full)
        parts = [split_heads((x @ linear.weight.T)[None], config.d_head)[0, n] for x in inputs[:2]]  # [T, E]
        constant = inputs[2] @ linear.weight.T + (0 if linear.bias is None else linear.bias)
        parts[1] = parts[1] + constant.view(-1, config.d_head)[n]  # a bias does not depend on the token
        if norm is not None:
            scale = NORMS[norm.kind](parts[0] + parts[1], norm.eps)[1]
            parts = [part / scale * norm.weight for part in parts]
        sides.append(parts)
    (qc, qp), (kc, kp) = sides
    terms = (qc @ kc.T, qc @ kp.T + qp @ kc.T, qp @ kp.T)
    hidden = future(T, T)
    return Parts(*((term / math.sqrt(config.d_head)).masked_fill(hidden, torch.nan).numpy() for term in terms))


def _linear_parts(norm: Norm | None, parts: tuple[Tensor, Tensor], full: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a norm applied to each of two summands of its input, with the divisor of the whole, and its
    bias. [T, D]
    """
    if norm is None:
        return *parts, torch.zeros(full.shape[-1])
    scale = NORMS[norm.kind](full, norm.eps)[1]
    normed = [NORMS[norm.kind](part, norm.eps)[0] / scale * norm.weight for part in parts]
    return *normed, torch.zeros(full.shape[-1]) if norm.bias is None else norm.bias
