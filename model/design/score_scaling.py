"""Score scaling by sqrt(d_head): the effect of large scores on the softmax, for a head and for random vectors.

A row's scores are q.k / d^p: p = 1/2 is the scaling with which these models were trained (Vaswani et al. 2017, eq. 1),
p = 0 is no scaling, and p = 1 is the scaling of muP (Yang et al. 2022, definition 4.1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.public import MOST_SEED, above, array, public, whole

SIZES = (16, 32, 64, 128, 256, 512, 1024)  # sizes d of the random vectors
KEYS, ROWS = 64, 64  # number of keys per row, and of rows that share them
TIMES = 12  # number of repetitions with other keys
TEMPERATURES = np.geomspace(0.01, 100.0, 81)  # temperatures by which a row's scores are divided


@dataclass(frozen=True, eq=False)
class Rows:
    """Softmax statistics of each row of scores. Each array is float64 [T], NaN for a row without a visible key."""

    keys: np.ndarray  # number of visible keys
    entropy: np.ndarray  # -sum p ln p, nats; at most ln(keys)
    largest: np.ndarray  # the largest weight
    jacobian: np.ndarray  # Frobenius norm of the Jacobian d weights / d scores


@dataclass(frozen=True)
class Summary:
    """Means over the rows with at least two visible keys, for one power of d_head."""

    power: float
    deviation: float  # mean over the rows of the standard deviation of a row's scores
    entropy: float  # mean entropy, nats
    evenness: float  # mean of entropy / ln(keys): 1 for uniform weights
    largest: float  # mean largest weight
    jacobian: float  # mean Jacobian norm
    saturated: float  # fraction of rows with a weight above 0.99


@dataclass(frozen=True)
class Drawn:
    """Random q and k of one size: variance of q.k, and softmax statistics without and with division by sqrt(d)."""

    size: int
    variance: float  # variance of q.k
    scaled_variance: float  # variance of q.k / sqrt(d)
    entropy: tuple[float, float]  # means without and with scaling, nats
    largest: tuple[float, float]
    jacobian: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Lookup:
    """One row of attention as a soft dictionary: its weights and output, with the scores divided by each temperature.

    As the temperature approaches 0, all weight is on the best key, and the output is that key's value: a lookup.
    Float64, N temperatures, S keys.
    """

    temperatures: np.ndarray  # [N]
    weights: np.ndarray  # [N, S]
    best: int  # index of the key with the largest score
    apart: np.ndarray  # [N] |output - value of the best key| / |that value|


@public(scores=array("S", finite=False), values=array("S E"), temperatures=above(0))
def lookup(scores: np.ndarray, values: np.ndarray, temperatures: np.ndarray = TEMPERATURES) -> Lookup:
    """Compute a row of attention at every temperature from scores [S], NaN for a masked key, and values [S, E]."""
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
    """Return the weights of each row. [T, S] -> float64 [T, S]

    The weight for a NaN score is 0; a row of only NaN becomes NaN.
    """
    seen = np.where(np.isnan(scores), -np.inf, scores)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.full_like(weights, np.nan), where=total > 0)


def jacobian_norm(weights: np.ndarray) -> np.ndarray:
    """Return the Frobenius norm of the softmax's Jacobian diag(p) - p p^T, at most 1/2. Rows p [..., S] -> [...]

    Its square |J|^2 is sum p^2 - 2 sum p^3 + (sum p^2)^2. It is 0 if one key has all the weight, 1/2 for two equal
    weights, and sqrt(n - 1) / n for n equal weights. It bounds the factor by which the softmax scales the norm of a
    gradient.
    """
    square = (weights**2).sum(-1)
    return np.sqrt(np.maximum(square - 2 * (weights**3).sum(-1) + square**2, 0.0))


def rows_of(scores: np.ndarray) -> Rows:
    """Compute the entropy, largest weight and Jacobian norm of every row. scores [T, S], NaN for a masked key."""
    p = softmax(scores)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return Rows((~np.isnan(scores)).sum(-1), -(p * logs).sum(-1) + 0.0, p.max(-1), jacobian_norm(p))


def summary(dots: np.ndarray, d_head: int, power: float) -> Summary | None:
    """Summarize the rows of a head for the scores q.k / d^power; None if no row has two visible keys. dots [T, S]"""
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
    """Measure the softmax for random q and k, whose entries are independent with mean 0 and variance 1, so that q.k has
    variance d.

    Vaswani et al. 2017, section 3.2.1, footnote 4. Without scaling, each row concentrates on a single key as d grows,
    and its Jacobian goes to 0; with scaling, neither depends on d.
    """
    generator, results = torch.Generator().manual_seed(seed), []
    for d in sizes:
        q, k = (torch.randn(TIMES, n, d, generator=generator) for n in (ROWS, keys))
        dots = (q @ k.mT).reshape(-1, keys).double().numpy()  # by torch, since numpy's threads wait for one another
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
