"""Dependence of a head's scores on the distance from query to key, and the component due to positions alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_layer
from model.attention.measures import attend_rows, query_chunks
from model.gpt.layers import NORMS, future, rotate, sinusoidal_positions, split_heads
from model.gpt.mixers.needs import need_alone
from model.gpt.mixers.scoring import alibi_slopes
from model.gpt.norm import Norm
from model.tracing.trace import Trace

WHOLE = 16  # number of distances with a bucket of their own
STEP = 2**0.25  # ratio of the ends of neighboring buckets beyond WHOLE
BAND = (10, 90)  # percentiles of the band

Buckets = Sequence[tuple[int, int]]  # (first, last) distance of each bucket


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Statistics of one head on one prompt by distance. Each array is [K], one entry per distance bucket; NaN for
    buckets without pairs.
    """

    buckets: Buckets
    pairs: np.ndarray  # number of pairs, int64
    median: np.ndarray  # median of the scores before the softmax
    low: np.ndarray  # 10th percentile of the scores
    high: np.ndarray  # 90th percentile of the scores
    mean: np.ndarray  # mean of the scores
    weight: np.ndarray  # mean attention weight


@dataclass(frozen=True, eq=False)
class Parts:
    """A head's scores as a sum of three components, each [T, T] with NaN above the diagonal."""

    content: np.ndarray  # content of the query with content of the key
    mixed: np.ndarray  # content with position, and position with content
    position: np.ndarray  # position with position, biases included


def buckets(T: int, whole: int = WHOLE) -> Buckets:
    """Partition the distances 0 .. T - 1 into buckets: one distance each below `whole`, then ranges whose ends grow by
    a factor of 2^(1/4).
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
    """Return the entries of a [T, T] matrix whose distance, query minus key, is in a bucket, without NaN; `first`
    includes key 0. [n]
    """
    skip = 0 if first else 1  # each diagonal begins with key 0
    values = np.concatenate([np.diagonal(matrix, -d)[skip:] for d in range(at[0], at[1] + 1)])
    return values[~np.isnan(values)]


def by_distance(scores: np.ndarray, pattern: np.ndarray, groups: Buckets, *, first: bool = False) -> ByDistance:
    """Compute statistics of a head's scores and weights [T, T] by distance. Key 0, an attention sink in many heads, is
    included only if `first`.

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
    """Average one number per distance over each bucket, ignoring NaN; NaN if a bucket has only NaN. [T] -> [K]"""
    defined = [part[~np.isnan(part)] for part in (values[a : b + 1] for a, b in groups)]
    return np.array([part.mean() if len(part) else np.nan for part in defined])


def uniform_weight(T: int, groups: Buckets, *, first: bool = False) -> np.ndarray:
    """Compute the mean weight in each bucket under uniform attention, the mean of 1 / (i + 1) over its
    queries i. [K]
    """
    below = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, T + 1))])  # prefix sums of 1 / (i + 1)
    skip = 0 if first else 1
    starts = np.minimum(np.arange(T) + skip, T)  # the first query is at the distance, or one later without key 0
    total, count = below[T] - below[starts], T - starts
    sums = [(total[a : b + 1].sum(), count[a : b + 1].sum()) for a, b in groups]
    return np.array([each / n if n else np.nan for each, n in sums])


def sink_scores(scores: np.ndarray) -> np.ndarray:
    """Return the score of key 0 at each distance, where there is one such pair. [T, T] -> [T]"""
    return scores[:, 0].copy()


def near(pattern: np.ndarray, most: int = 4) -> float:
    """Compute the mean weight, over queries, on the keys at most `most` tokens back, including the query itself. [T, T]
    -> 0 to 1
    """
    return float(sum(np.diagonal(pattern, -d).sum(dtype=np.float64) for d in range(most + 1)) / len(pattern))


def share_of_distance(scores: np.ndarray, *, first: bool = False) -> float:
    """Compute the fraction, from 0 to 1, of the variance of a head's scores that distance alone explains.

    NaN if it is undefined: too few scores, or scores that differ only by rounding, up to four epsilons times the
    largest absolute score. The variance between the mean scores of the distances is corrected for the number of
    distances: Kelley's epsilon squared (1935) = 1 - (N - 1) / (N - K) (1 - eta squared) for N scores and K distances,
    clipped at 0. scores [T, T], NaN above the diagonal.
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
    """Compute the mean attention weight of each head of a layer in each distance bucket, NaN if it has
    no pairs. [H, K]
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
    count = torch.arange(T, 0, -1, dtype=torch.float32) - skip  # number of pairs at each distance
    means = [
        total[:, a : b + 1].sum(1) / n if (n := count[a : b + 1].sum()) else total[:, 0] * math.nan for a, b in groups
    ]
    return torch.stack(means, 1).numpy()


# --- positions alone --------------------------------------------------------------------------------


@torch.inference_mode()
def position_score(trace: Trace, layer: int, head: int, *, first: bool = False) -> np.ndarray | None:
    """Compute the score at each distance with the content averaged out, for positions that act only in attention. [T]

    It is the mean of q_i . R(d) k_j over all pairs of the prompt's queries and keys before rotation, each pair rotated
    as if at distance d. Since a score is linear in q and in k, this mean is the score of the mean query and the mean
    key. RoPE (Su et al. 2021, eq. 16); without positions, R(d) = 1 and the curve is flat; ALiBi subtracts d times the
    head's slope. None for positions that are added to the stream, with a cap, under which the mean score is not that of
    the means, with positions rounded before the penalty, and if there are no keys. `first` includes token 0 among keys
    and queries.
    """
    config, T = trace.config, len(trace.tokens)
    need_alone(config)
    start = 0 if first else 1
    if config.positions not in ("rope", "none", "alibi") or config.score_cap is not None or start >= T:
        return None
    if config.alibi_rounded:
        return None
    qkv = trace.qkv(layer, head)
    q, k = torch.tensor(qkv.q), torch.tensor(qkv.k)  # [T, E]
    attn = trace.model.blocks[layer].attn
    rope = attn.turn.table(trace.model.prepare(0, T))
    if rope is None:
        score = float(q[start:].mean(0) @ k[start:].mean(0)) / math.sqrt(config.d_head)
        curve, slopes = np.full(T, score, dtype=np.float32), alibi_slopes(config.n_head)
        return curve if config.positions != "alibi" else curve - float(slopes[head]) * np.arange(T, dtype=np.float32)
    cos, sin = rope
    square = cos.square() + sin.square()  # not 1 where a scaling has an amplitude
    q, k = (rotate(x, cos / square, -sin / square, config.rope_pairs)[start:].mean(0) for x in (q, k))
    turned = attn.turn.rotated(q.expand(T, -1), rope)  # the key is at 0, the query at d
    return (turned @ attn.turn.rotated(k[None], (cos[:1], sin[:1]))[0] / math.sqrt(config.d_head)).numpy()


@torch.inference_mode()
def first_layer_parts(trace: Trace, head: int) -> Parts | None:
    """Decompose the scores of a head in layer 0 by the summands of its input: token embedding and position vector.

    Exact for positions that are added to the embedding, in a run without edits: the norm's divisor is the model's own
    value for each token, everything else up to q and k is linear, and the three components sum to the scores. As in
    Elhage et al. 2021, "A mathematical framework for Transformer circuits". None for other models, also for those with
    a norm of the embeddings, a clamp, a cap, or a norm over the queries of all heads, and for edited runs.
    After the first layer, all vectors mix content and positions, and there is no such decomposition.
    """
    config, model = trace.config, trace.model
    if config.positions not in ("learned", "sinusoidal") or trace.tap is not None or config.mixer_of(0) != "softmax":
        return None
    together = config.qk_norm and config.qk_norm_over != "head"
    if config.embed_norm or config.qkv_limit is not None or config.score_cap is not None or together:
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
        parts[1] = (
            parts[1] + constant.view(-1, config.d_head)[n]
        )  # a bias does not depend on the token, so it counts as position
        if norm is not None:
            content, place, bias = _linear_parts(norm, (parts[0], parts[1]), parts[0] + parts[1])
            parts = [content, place + bias]
        sides.append(parts)
    (qc, qp), (kc, kp) = sides
    qc, qp = qc * config.query_factor, qp * config.query_factor
    terms = (qc @ kc.T, qc @ kp.T + qp @ kc.T, qp @ kp.T)
    hidden = future(T, T)
    return Parts(*((term / math.sqrt(config.d_head)).masked_fill(hidden, torch.nan).numpy() for term in terms))


def _linear_parts(norm: Norm | None, parts: tuple[Tensor, Tensor], full: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Apply a norm to each of two summands of its input, with the divisor of the sum. Returns both, and the norm's
    bias. [T, D]
    """
    if norm is None:
        return *parts, torch.zeros(full.shape[-1])
    scale = NORMS[norm.kind](full, norm.eps)[1]
    normed = [NORMS[norm.kind](part, norm.eps)[0] / scale * norm.weight for part in parts]
    return *normed, torch.zeros(full.shape[-1]) if norm.bias is None else norm.bias
