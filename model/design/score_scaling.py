"""Score scaling by sqrt(d_head): the effect of large scores on a softmax, for a head and for random vectors.

A row's scores are q.k / d^p: p = 1/2 is the scaling in training of the models here (Vaswani et al. 2017, eq. 1), p = 0
is no scaling, p = 1 is that of muP (Yang et al. 2022, definition 4.1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.public import MOST_SEED, above, array, public, whole

SIZES = (16, 32, 64, 128, 256, 512, 1024)  # of random vectors
KEYS, ROWS = 64, 64  # keys of a row, and rows that share them
TIMES = 12  # repeats with other keys
TEMPERATURES = np.geomspace(0.01, 100.0, 81)  # divisors of a row's scores


@dataclass(frozen=True, eq=False)
class Rows:
    """Statistics of the softmax of each row of scores. All float64 [T], NaN for a row without a visible key."""

    keys: np.ndarray  # number of visible keys
    entropy: np.ndarray  # -sum p ln p, nats; at most ln(keys)
    largest: np.ndarray  # the largest weight
    jacobian: np.ndarray  # Frobenius norm of d weights / d scores


@dataclass(frozen=True)
class Summary:
    """Means over the rows with at least two visible keys."""

    power: float
    deviation: float  # standard deviation of the scores within a row, its mean over the rows
    entropy: float  # mean, nats
    evenness: float  # mean of entropy / ln(keys): 1 for uniform weights
    largest: float  # mean
    jacobian: float  # mean
    saturated: float  # share of rows that give more than 0.99 to one key


@dataclass(frozen=True)
class Drawn:
    """Random vectors of one size: variance of q.k, and softmax statistics without and with division by sqrt(d)."""

    size: int
    variance: float  # of q.k
    scaled_variance: float  # of q.k / sqrt(d)
    entropy: tuple[float, float]  # without, with; mean, nats
    largest: tuple[float, float]
    jacobian: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Lookup:
    """One row of attention as a soft dictionary: its output with the scores divided by each temperature.

    Towards 0 all weight is on the best key, and the output is its value: a look-up. Float64, N temperatures, S keys.
    """

    temperatures: np.ndarray  # [N]
    weights: np.ndarray  # [N, S]
    best: int  # the key of the largest score
    apart: np.ndarray  # [N] |output - value of the best key| / |that value|


@public(scores=array("S", finite=False), values=array("S E"), temperatures=above(0))
def lookup(scores: np.ndarray, values: np.ndarray, temperatures: np.ndarray = TEMPERATURES) -> Lookup:
    """Compute a row of attention at every temperature, from scores [S], NaN for a masked key, and values [S, E]."""
    if len(scores) != len(values):
        raise ValueError(f"values must have a row for each of the scores, got {scores.shape}, {values.shape}")
    weights = softmax(scores.astype(np.float64)[None] / temperatures[:, None])
    best = int(np.where(np.isnan(scores), -np.inf, scores).argmax())
    value = values[best].astype(np.float64)
    length = float(np.linalg.norm(value))
    apart = np.linalg.norm(weights @ values.astype(np.float64) - value, axis=1) / (length or math.nan)
    return Lookup(temperatures, weights, best, apart)


def products(scores: np.ndarray, d_head: int) -> np.ndarray:
    """Recover q.k from scores that were divided by sqrt(d_head). NaN remains NaN. [T, S] -> float64 [T, S]"""
    return scores.astype(np.float64) * math.sqrt(d_head)


def scaled(dots: np.ndarray, d_head: int, power: float) -> np.ndarray:
    """Return q.k / d_head^power. [T, S] -> [T, S]"""
    return dots / d_head**power


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the weights of each row; a NaN score gets weight 0, and a row of only NaN becomes NaN. [T, S] -> float64
    [T, S]
    """
    seen = np.where(np.isnan(scores), -np.inf, scores)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.full_like(weights, np.nan), where=total > 0)


def jacobian_norm(weights: np.ndarray) -> np.ndarray:
    """Return the Frobenius norm of the softmax's derivative diag(p) - p p^T, at most 1/2. Rows p [..., S] -> [...]

    Its square |J|^2 is sum p^2 - 2 sum p^3 + (sum p^2)^2. It is 0 if one key has all the weight, 1/2 for two equal
    weights, and sqrt(n - 1) / n for n equal weights: the softmax passes on a gradient at most this many times as long.
    """
    square = (weights**2).sum(-1)
    return np.sqrt(np.maximum(square - 2 * (weights**3).sum(-1) + square**2, 0.0))


def rows_of(scores: np.ndarray) -> Rows:
    """Compute entropy, largest weight and Jacobian of every row. scores [T, S], NaN for a masked key."""
    p = softmax(scores)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return Rows((~np.isnan(scores)).sum(-1), -(p * logs).sum(-1) + 0.0, p.max(-1), jacobian_norm(p))


def summary(dots: np.ndarray, d_head: int, power: float) -> Summary | None:
    """Summarize the rows of a head under q.k / d^power; None if no row has two visible keys. dots [T, S]"""
    scores = scaled(dots, d_head, power)
    rows = rows_of(scores)
    valid = rows.keys > 1
    if not valid.any():
        return None
    return Summary(
        power,
        float(np.nanstd(scores[valid], axis=-1).mean()),
        float(rows.entropy[valid].mean()),
        float((rows.entropy[valid] / np.log(rows.keys[valid])).mean()),
        float(rows.largest[valid].mean()),
        float(rows.jacobian[valid].mean()),
        float((rows.largest[valid] > 0.99).mean()),
    )


@public(sizes=whole(1, 1 << 14), keys=whole(2, 1 << 14), seed=whole(0, MOST_SEED))
def drawn(sizes: Sequence[int] = SIZES, keys: int = KEYS, seed: int = 0) -> tuple[Drawn, ...]:
    """Measure random q and k. Their entries are independent with mean 0 and variance 1, so q.k has variance d.

    Vaswani et al. 2017, section 3.2.1, footnote 4. Without scaling the softmax's rows concentrate on a single key as d
    grows and its Jacobian goes to 0; with it neither depends on d.
    """
    generator, results = torch.Generator().manual_seed(seed), []
    for d in sizes:
        q, k = (torch.randn(TIMES, n, d, generator=generator) for n in (ROWS, keys))
        dots = (q @ k.mT).reshape(-1, keys).double().numpy()  # torch's product: numpy's threads wait for one another
        both = [rows_of(dots), rows_of(scaled(dots, d, 0.5))]
        results.append(
            Drawn(
                d,
                float(dots.var()),
                float(dots.var() / d),
                *(
                    tuple(float(getattr(rows, name).mean()) for rows in both)
                    for name in ("entropy", "largest", "jacobian")
                ),
            )
        )
    return tuple(results)
