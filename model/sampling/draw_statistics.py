"""Many draws from one distribution, and a test of their frequencies."""

from dataclasses import dataclass

import numpy as np
import torch

from model.public import above, array, check_alike, public, whole
from model.sampling.pipeline import LARGEST, order

LEVEL = 0.95  # default probability that a count falls within its range
LEAST = 5  # minimum number of expected draws in a bin of the chi-square test; Cochran 1954, section 3
# Philox has a counter of four 64-bit words: after one draw, this advances it to the next step, which is the last word +
# 1
_NEXT = 2**192 - 1


@dataclass(frozen=True, eq=False)
class UnitBar:
    """A distribution as a bar from 0 to 1: adjacent intervals of the tokens that can be drawn, in decreasing order of
    probability.
    """

    ids: np.ndarray  # int64 [n]
    shares: np.ndarray  # probabilities, float64 [n], in decreasing order
    edges: np.ndarray  # right end of each interval, float64 [n]
    total: float  # length of the bar: 1 up to rounding error

    def places(self, u: np.ndarray | float) -> np.ndarray:
        """Index of the interval that contains each number, 0 for the most likely token; the vectorized form of
        `pipeline.draw`.
        """
        return np.minimum(np.searchsorted(self.edges, u * self.total, side="right"), len(self.ids) - 1)

    def start(self, place: int) -> float:
        """Return the left end of an interval."""
        return float(self.edges[place - 1]) if place else 0.0

    def counts(self, u: np.ndarray) -> np.ndarray:
        """Count the draws of each token. [N] -> int64 [n]"""
        return np.bincount(self.places(u), minlength=len(self.ids))


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-square test of observed counts against expected counts."""

    statistic: float
    degrees: int  # bins - 1, because the probabilities are known, not fitted
    p: float  # probability that correct draws deviate at least as much
    shared: int  # number of tokens that share a bin because fewer than LEAST draws of each are expected


@public(probabilities=array("V"))
def bar_of(probabilities: np.ndarray) -> UnitBar:
    """Build the bar of a distribution [V]; tokens of probability 0 have no interval."""
    ids = order(probabilities)
    return UnitBar(ids, probabilities[ids], np.cumsum(probabilities[ids]), float(probabilities.sum()))


@public(seed=whole(0, LARGEST), n=whole(0), first=whole(0, LARGEST), row=whole(0, LARGEST))
def uniforms(seed: int, n: int, first: int = 0, row: int = 0) -> np.ndarray:
    """Compute the random numbers of the steps first .. first + n - 1, each equal to that of
    model.sampling.pipeline.uniform. float64 [n]

    One generator with an advancing counter is about four times as fast as a new generator for each step. Raises
    InputError unless the arguments are nonnegative integers.
    """
    bits = np.random.Philox(key=[seed, row], counter=[0, 0, 0, first])
    generator, numbers = np.random.Generator(bits), np.empty(n)
    for step in range(n):
        numbers[step] = generator.random()
        bits.advance(_NEXT)
    return numbers


@public(n=whole(0), shares=array("V"), level=above(0, 0.999999))
def band(n: int, shares: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Compute the central range of the count of n draws, for tokens with these probabilities. [k] -> [k], [k]

    Exact: the bounds are the quantiles (1 - level) / 2 and (1 + level) / 2 of the binomial distribution, each the
    first count at which its cumulative distribution reaches them. A count falls within the range with a probability of
    at least `level`.
    """
    k, p = torch.arange(n + 1, dtype=torch.float64), torch.from_numpy(np.minimum(shares, 1.0))[:, None]
    ways = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    below = (ways + torch.xlogy(k, p) + torch.special.xlog1py(n - k, -p)).exp().cumsum(-1)  # P(count <= k), [k, n + 1]
    reached = [torch.searchsorted(below, torch.full_like(p, at)) for at in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (each[:, 0].clamp(max=n).numpy() for each in reached)
    return low, high


@public(counts=array("V"), shares=array("V"))
def fit(counts: np.ndarray, shares: np.ndarray) -> Fit | None:
    """Run a chi-square test of counts [n] against probabilities [n] in decreasing order; None if fewer than two bins
    remain.

    sum (observed - expected)^2 / expected (Pearson 1900). Neighboring tokens share a bin until at least LEAST draws of
    it are expected.
    """
    check_alike(counts=counts, shares=shares)
    expected = counts.sum() * shares / shares.sum()
    starts = _bins(expected)
    if len(starts) < 2:
        return None
    observed_bins, expected_bins = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    statistic, degrees = float(((observed_bins - expected_bins) ** 2 / expected_bins).sum()), len(starts) - 1
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    p = float(torch.special.gammaincc(half[0], half[1]))
    sizes = np.diff([*starts, len(expected)])
    return Fit(statistic, degrees, p, int(sizes[sizes > 1].sum()))


def _bins(expected: np.ndarray) -> list[int]:
    """Return the first indices of bins with at least LEAST expected draws each; a smaller remainder joins the last
    bin.
    """
    starts, total = [], 0.0
    for place, share in enumerate(expected.tolist()):
        if not total:
            starts.append(place)
        total = 0.0 if total + share >= LEAST else total + share
    return starts[:-1] if total else starts
