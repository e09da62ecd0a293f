"""Four implementations of attention, and the online softmax of one row, block by block.

Each implementation maps q [B, H, T, E], k and v [B, G, S, E] to z [B, H, T, E] = softmax(q k^T / sqrt(E)) v. The T
queries are the last of S positions, and later positions are hidden from them; query head h uses KV head h // (H / G). A
`bias` [T, S] is added to the scores instead of the causal mask: -inf where a key is hidden. The output of a row without
visible keys is 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.gpt.layers import attention_pattern, attention_scores, fused_attention, future, mix
from model.gpt.mixers.needs import need_qkv
from model.public import array, one_of, public, whole
from model.tracing.trace import Trace

QUERIES, KEYS = 128, 128  # number of queries and keys per block
UNIT = 2.0**-24  # unit roundoff: half the distance from 1 to the next float32

Way = Callable[[Tensor, Tensor, Tensor], Tensor]


def naive(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute all [T, S] scores of every head at once, then their softmax, then the weighted sum.

    Vaswani et al. 2017, eq. 1.
    """
    if bias is None:
        return mix(attention_pattern(attention_scores(q, k)), v)
    scores = _grouped(q, k) @ k[:, :, None].mT / math.sqrt(q.shape[-1]) + bias
    lost = (scores == -math.inf).all(-1, keepdim=True)
    return (scores.softmax(-1).masked_fill(lost, 0.0) @ v[:, :, None]).flatten(1, 2)


def by_rows(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, rows: int = QUERIES) -> Tensor:
    """Compute whole rows of scores for a few queries at a time, so that memory grows with S instead of T S.

    Rabe & Staats 2021, section 3, without their second loop over the keys.
    """
    T, S = q.shape[2], k.shape[2]
    z = torch.empty_like(q)
    for start in range(0, T, rows):
        end = min(start + rows, T)
        if bias is None:  # no later key is visible to these queries
            seen = S - T + end
            z[:, :, start:end] = naive(q[:, :, start:end], k[:, :, :seen], v[:, :, :seen])
        else:
            z[:, :, start:end] = naive(q[:, :, start:end], k, v, bias[start:end])
    return z


def chunked(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, queries: int = QUERIES, keys: int = KEYS
) -> Tensor:
    """Process blocks of queries and keys with an online softmax; no row of scores is ever complete in memory.

    Running values of every query: the maximum m, the sum l of exp(score - m) and the sum o of exp(score - m) v. If a
    block has a larger maximum, l and o are scaled by exp(m_old - m_new). z = o / l. Blocks entirely in the future are
    skipped. Milakov & Gimelshein 2018, algorithm 3; Rabe & Staats 2021; Dao et al. 2022, algorithm 1.
    """
    T, S = q.shape[2], k.shape[2]
    z = torch.empty_like(q)
    for start in range(0, T, queries):
        end = min(start + queries, T)
        part = _grouped(q[:, :, start:end], k) / math.sqrt(q.shape[-1])  # [B, G, H / G, t, E]
        m = part.new_full((*part.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(part)
        last = S - T + end if bias is None else S
        for at in range(0, last, keys):
            to = min(at + keys, last)
            scores = part @ k[:, :, None, at:to].mT  # [B, G, H / G, t, s]
            if bias is not None:
                scores = scores + bias[start:end, at:to]
            elif to > S - T + start + 1:  # some of these keys come after some of these queries
                scores = scores.masked_fill_(future(end - start, last)[:, at:to], -math.inf)
            m, l, o = _step(m, l, o, scores, v[:, :, None, at:to])
        z[:, :, start:end] = (o / l.masked_fill(l == 0, 1.0)).flatten(1, 2)
    return z


def _step(m: Tensor, l: Tensor, o: Tensor, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Update the running maximum, sum and output with a block of scores [..., t, s] and values [..., s, E]."""
    higher = torch.maximum(m, scores.amax(-1, keepdim=True))
    base = higher.masked_fill(higher == -math.inf, 0.0)  # -inf - -inf would be NaN while no key is visible
    weights, scale = (scores - base).exp(), (m - base).exp()
    return higher, scale * l + weights.sum(-1, keepdim=True), scale * o + weights @ v


def _grouped(q: Tensor, k: Tensor) -> Tensor:
    """Group the query heads by their shared KV head. [B, H, T, E] -> [B, G, H / G, T, E]"""
    return q.unflatten(1, (k.shape[1], -1))


# Causal attention implementations (q, k, v) -> z, by name.
WAYS: dict[str, Way] = {"naive": naive, "rows": by_rows, "chunked": chunked, "fused": fused_attention}


# --- accuracy --------------------------------------------------------------------------------------


def rows_of(T: int, most: int = 256) -> Tensor:
    """Return the positions to compare: all, or `most` evenly spaced ones including the first and the last. int64 [n]"""
    return torch.arange(T) if most >= T else torch.linspace(0, T - 1, most).round().long()


@torch.inference_mode()
def reference(q: Tensor, k: Tensor, v: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Compute z of the given queries in float64, and a bound on the float32 error. Each float64 [B, H, n, E], T = S.

    This is a first-order worst-case bound that holds for any order of summation (Higham 2002, section 3.1): the error
    of a sum of n terms is at most n u times the sum of their absolute values, u = 2^-24. So the error of a score is at
    most (E + 4) u m, where m is the largest sum over e of |q_e k_e| / sqrt(E) in the row. The relative error of a
    weight is twice as large, since the maximum is subtracted. The sums over S keys, in numerator and denominator, with
    their rescalings, add at most 2 S + 32 roundings. In total, |z - exact| <= u (2 (E + 4) m + 2 S + 32) * (sum over s
    of p_s |v_s|).
    """
    E, S = q.shape[-1], k.shape[2]
    grouped, k, v = _grouped(q[:, :, rows].double(), k), k.double()[:, :, None], v.double()[:, :, None]
    hidden = torch.arange(S) > rows[:, None]
    scores = (grouped @ k.mT / math.sqrt(E)).masked_fill(hidden, -math.inf)
    pattern = scores.softmax(-1)
    sizes = (grouped.abs() @ k.abs().mT / math.sqrt(E)).masked_fill(hidden, 0.0).amax(-1, keepdim=True)
    bound = UNIT * (2 * (E + 4) * sizes + 2 * S + 32) * (pattern @ v.abs())
    return (pattern @ v).flatten(1, 2), bound.flatten(1, 2)


@dataclass(frozen=True)
class Exact:
    """Error of one implementation's float32 result relative to float64."""

    way: str  # a key of WAYS
    gap: float  # largest |difference|
    share: float  # largest ratio of absolute error to bound, at most 1


@public(q=array("B H T E"), k=array("B G S E"), v=array("B G S E"), ways=one_of(WAYS))
@torch.inference_mode()
def exactness(q: Tensor, k: Tensor, v: Tensor, ways: tuple[str, ...] = tuple(WAYS)) -> tuple[Exact, ...]:
    """Compare every implementation with float64, at all positions or at 256 of them; T = S."""
    rows = rows_of(q.shape[2])
    exact, bound = reference(q, k, v, rows)
    results = []
    for way in ways:
        error = (WAYS[way](q, k, v)[:, :, rows].double() - exact).abs()
        results.append(Exact(way, float(error.max()), float((error / bound.clamp(min=1e-300)).max())))
    return tuple(results)


# --- one row, block by block ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OnlineStep:
    """State of the online softmax of one row after a block of keys."""

    start: int
    end: int  # the block's keys are start .. end - 1
    block: float  # the largest score of the block; -inf if all are masked
    maximum: float  # m: the largest score so far
    scale: float  # exp(m_old - m), the factor on l and o: 1 if m is unchanged, 0 for the first block
    total: float  # l: the sum of exp(score - m) so far
    output: np.ndarray  # o / l: the weighted sum of values so far. float64 [E]
    weights: np.ndarray  # exp(score - m) / l of the keys so far, NaN for the others. float64 [S]


@public(scores=array("S", finite=False), values=array("S E"), block=whole(1))
def online_steps(scores: np.ndarray, values: np.ndarray, block: int) -> list[OnlineStep]:
    """Compute one row of attention block by block over the keys, in float64, from scores [S] and values [S, E].

    The score of a masked key is -inf or NaN. The last step's weights are the softmax of the row, and its output is the
    weighted sum of the values, up to float64 rounding. Milakov & Gimelshein 2018, algorithm 3; Dao et al. 2022,
    algorithm 1. Raises ValueError for a block size below 1, or if the shapes do not match.
    """
    if values.shape[:1] != scores.shape:
        raise ValueError(f"values must have a row for each of the scores, got {scores.shape}, {values.shape}")
    scores = np.where(np.isnan(scores), -np.inf, scores).astype(np.float64)
    m, total, o, steps = -np.inf, 0.0, np.zeros(values.shape[1]), []
    for start in range(0, len(scores), block):
        part = scores[start : start + block]
        end = start + len(part)
        higher = max(m, float(part.max()))
        base = higher if np.isfinite(higher) else 0.0
        scale, new = float(np.exp(m - base)), np.exp(part - base)
        total, o, m = scale * total + float(new.sum()), scale * o + new @ values[start:end].astype(np.float64), higher
        safe = total or 1.0
        weights = np.full(len(scores), np.nan)
        weights[:end] = np.exp(scores[:end] - base) / safe
        steps.append(OnlineStep(start, end, float(part.max()), m, scale, total, o / safe, weights))
    return steps


def blocks_for(n: int, block: int, most: int = 16) -> int:
    """Return a block size that needs at most `most` steps over n keys: `block`, or a larger one if necessary."""
    return max(block, -(-n // most))


@public()
@torch.inference_mode()
def layer_qkv(trace: Trace, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs of a layer's attention after RoPE and edits. q [1, H, T, E], k and v [1, G, T, E]

    Raises InputError for a layer that is out of range or has no queries and keys.
    """
    need_qkv(trace.config, layer)
    names = ("q_rot", "k_rot", "v") if trace.config.rotates(layer) else ("q", "k", "v")
    sites = trace.sites(layer, names)
    return tuple(sites[name] for name in names)
