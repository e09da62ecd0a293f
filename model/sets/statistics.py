"""Statistics of an effect over a set of examples: means, bootstrap intervals, sign-flip tests corrected for the number
of comparisons, and a random control.

All functions take values [N, C]: one row per example, one column per comparison (a head, or a layer and a position).
"""

from dataclasses import dataclass

import numpy as np

from model.errors import InputError
from model.public import MOST_SEED, array, between, public, whole

DRAWS = 2000  # resamples of a bootstrap, and random sign flips
EXACT = 10  # up to this number of examples, all sign flips are enumerated
LEAST = 2  # fewer examples have no interval
TESTABLE = 6  # with fewer examples, no p can be below 5%: see least_p
_CHUNK = 1 << 22  # numbers held at once
_TIE = 1e-9  # relative: statistics this close count as equal, since they differ by rounding


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics of C comparisons over N examples."""

    n: int
    mean: np.ndarray  # [C] float64
    low: np.ndarray  # bootstrap interval of the mean, [C]; NaN for fewer than LEAST examples
    high: np.ndarray
    p: np.ndarray  # two-sided sign-flip p, [C]
    corrected: np.ndarray  # p corrected for the C comparisons (max-T), [C]; at least p
    flips: int  # number of sign flips, 2^N if all were enumerated


@public(values=array("N C"), seed=whole(0, MOST_SEED), draws=whole(100, 100_000), level=between(0.5, 0.999))
def statistics(values: np.ndarray, seed: int = 0, draws: int = DRAWS, level: float = 0.95) -> Statistics:
    """Compute mean, interval, p and corrected p of each column. values [N, C]

    See `bootstrap` and `sign_flips`. Raises InputError for an array without examples or with entries that are not
    finite.
    """
    low, high = bootstrap(values, seed, draws, level)
    p, corrected, flips = sign_flips(values, seed, draws)
    return Statistics(len(values), values.astype(np.float64).mean(0), low, high, p, corrected, flips)


@public(values=array("N C"), seed=whole(0, MOST_SEED), draws=whole(100, 100_000), level=between(0.5, 0.999))
def bootstrap(
    values: np.ndarray, seed: int = 0, draws: int = DRAWS, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the bias-corrected and accelerated bootstrap interval of each column's mean. [N, C] -> low, high [C]

    Examples are drawn with replacement, the same ones for all columns. The ends are the quantiles of the resampled
    means at Φ(z0 + (z0 + z) / (1 - a (z0 + z))), with z0 from the share of resampled means below the mean, and the
    acceleration a from the skewness of the jackknife. NaN for fewer than LEAST examples; a column of equal values has
    an interval without width. Source: Efron 1987; Efron & Tibshirani 1993, chapter 14.
    """
    from scipy.special import ndtr, ndtri  # imported here, since it takes a fifth of the app's import time

    x = values.astype(np.float64)
    N, C = x.shape
    if N < LEAST:
        return np.full(C, np.nan), np.full(C, np.nan)
    counts = np.random.default_rng(seed).multinomial(N, np.full(N, 1 / N), size=draws) / N  # [draws, N]
    means = x.mean(0)
    centered = x - means
    constant = np.abs(centered).max(0) <= _TIE * np.abs(x).max(0)
    spread = np.sqrt((centered**2).sum(0))
    spread[constant] = 1
    low, high = means.copy(), means.copy()
    skew = (centered**3).sum(0) / (6 * spread**3)
    z = ndtri([(1 - level) / 2, (1 + level) / 2])
    width = max(1, _CHUNK // draws)
    for start in range(0, C, width):
        part = slice(start, min(C, start + width))
        moved = counts @ centered[:, part]  # resampled means minus the mean, [draws, c]
        below = (moved < 0).mean(0) + (moved == 0).mean(0) / 2
        bias = ndtri(np.clip(below, 1 / (2 * draws), 1 - 1 / (2 * draws)))
        moved.sort(0)
        for end, at in zip((low, high), z, strict=True):
            end[part] += _quantiles(moved, ndtr(bias + (bias + at) / (1 - skew[part] * (bias + at))))
    low[constant] = high[constant] = means[constant]
    return low, high


def _quantiles(ordered: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return each ascending column's quantile at its own share, between two entries linearly. [D, C], [C] -> [C]"""
    place = share * (len(ordered) - 1)
    under = np.floor(place).astype(int)
    columns, rest = np.arange(ordered.shape[1]), place - under
    over = np.minimum(under + 1, len(ordered) - 1)
    return (1 - rest) * ordered[under, columns] + rest * ordered[over, columns]


@public(values=array("N C"), seed=whole(0, MOST_SEED), draws=whole(100, 100_000))
def sign_flips(values: np.ndarray, seed: int = 0, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray, int]:
    """Test whether each column's mean differs from 0 by flipping the signs of examples. [N, C] -> p, corrected p [C],
    number of flips

    Under the null hypothesis that an example's effect is as often +x as -x, every choice of signs is equally likely.
    An example's sign is flipped in all columns at once, which keeps their correlations. p is the share of flips whose
    |t| is at least the observed one; corrected p, the share whose largest |t| over all columns is (max-T). t is the
    mean over its standard error, so that columns of any scale compare. All 2^N flips are enumerated up to N = EXACT;
    else `draws` random ones are, and the observed signs count as one of them, so that p is never 0. A column of zeros
    has p 1. Source: Fisher 1935; Westfall & Young 1993, single-step max-T.
    """
    x = values.astype(np.float64)
    N, C = x.shape
    top = np.abs(x).max(0)
    x = x / np.where(top > 0, top, 1)
    rng = np.random.default_rng(seed)
    if N <= EXACT:
        signs = 1.0 - 2 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1)
    else:
        signs = np.concatenate((np.ones((1, N)), rng.choice((-1.0, 1.0), (draws - 1, N))))
    total, squares = len(signs), (x**2).mean(0)
    observed = _size(x.mean(0)[None], squares)[0]
    reached, above = np.zeros(C), np.zeros(C)
    for part in np.array_split(signs, max(1, -(-signs.shape[0] * C // _CHUNK))):
        sizes = _size(part @ x / N, squares)
        reached += (sizes >= observed - _TIE).sum(0)
        above += np.searchsorted(np.sort(sizes.max(1)), observed - _TIE, side="left")
    return reached / total, (total - above) / total, total


def least_p(n: int) -> float:
    """Return the least p that sign flips of n examples can give: two of the 2^n choices of signs, all equal, reach the
    largest |t|.
    """
    return 2.0 / 2**n if n <= EXACT else 1 / DRAWS


def _size(means: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Compute |mean| / root mean square, which grows with |t|: t^2 = (N - 1) r^2 / (1 - r^2). [F, C], [C] -> [F, C]

    Sign flips keep the mean square. 0 for a column of zeros.
    """
    return np.abs(means) / np.sqrt(np.where(squares > 0, squares, 1))


@public(values=array("N C"), column=whole(0), seed=whole(0, MOST_SEED))
def random_column(values: np.ndarray, column: int, seed: int = 0) -> np.ndarray:
    """Return a control for one column: each example's value in another column, drawn at random. [N, C] -> [N]

    For effects of single heads, it is the effect of one random other head on the same prompts. Raises InputError for
    a column that does not exist, and for a single column.
    """
    N, C = values.shape
    if column >= C or C < 2:
        raise InputError("There is no other column to draw from.", f"{column} of {C}", "Choose a column of several.")
    drawn = np.random.default_rng((seed, column)).integers(0, C - 1, N)
    return values[np.arange(N), drawn + (drawn >= column)]
