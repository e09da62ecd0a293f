"""Many draws from one distribution, and a test of their frequencies."""

from dataclasses import dataclass

import numpy as np
import torch

from model.public import above, array, check_alike, public, whole
from model.sampling.pipeline import LARGEST, order

LEVEL = 0.95  # of a band: the probability that a count lies inside
LEAST = 5  # least expected draws of a bin of the chi-square test; Cochran 1954, section 3
_NEXT = 2**192 - 1  # Philox has a counter of four 64-bit words; after one draw, the next step is the last word + 1


@dataclass(frozen=True, eq=False)
class UnitBar:
    """A distribution as a bar from 0 to 1: adjacent intervals of the tokens that can be drawn, the most
    likely first.
    """

    ids: np.ndarray  # int64 [n]
    shares: np.ndarray  # float64 [n], descending
    edges: np.ndarray  # float64 [n], end of each interval
    total: float  # the length of the bar, 1 up to rounding

    def places(self, u: np.ndarray | float) -> np.ndarray:
        """Index of the interval that contains each number, 0 the most likely: `pipeline.draw` for many at once."""
        return np.minimum(np.searchsorted(self.edges, u * self.total, side="right"), len(self.ids) - 1)

    def start(self, place: int) -> float:
        """Start of an interval."""
        return float(self.edges[place - 1]) if place else 0.0

    def counts(self, u: np.ndarray) -> np.ndarray:
        """Return the number of draws of each token. [N] -> int64 [n]"""
        return np.bincount(self.places(u), minlength=len(self.ids))


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-square test of counts against their expectations."""

    statistic: float
    degrees: int  # bins - 1: the shares are known, not fitted
    p: float  # probability that correct draws deviate at least as much
    shared: int  # tokens that share a bin because fewer than LEAST draws of each are expected


@public(probabilities=array("V"))
def bar_of(probabilities: np.ndarray) -> UnitBar:
    """Return the bar of a distribution [V]; tokens of probability 0 have no interval."""
    ids = order(probabilities)
    return UnitBar(ids, probabilities[ids], np.cumsum(probabilities[ids]), float(probabilities.sum()))


@public(seed=whole(0, LARGEST), n=whole(0), first=whole(0, LARGEST), row=whole(0, LARGEST))
def uniforms(seed: int, n: int, first: int = 0, row: int = 0) -> np.ndarray:
    """Return the random numbers of the steps first .. first + n - 1: model.sampling.pipeline.uniform of each. float64
    [n]

    One generator with an advanced counter, instead of a new one per step: about four times as fast. Raises InputError
    for arguments that are not integers from 0 up.
    """
    bits = np.random.Philox(key=[seed, row], counter=[0, 0, 0, first])
    generator, numbers = np.random.Generator(bits), np.empty(n)
    for step in range(n):
        numbers[step] = generator.random()
        bits.advance(_NEXT)
    return numbers


@public(n=whole(0), shares=array("V"), level=above(0, 0.999999))
def band(n: int, shares: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest usual count of n draws, for tokens with these shares. [k] -> [k], [k]

    Exact: the quantiles (1 - level) / 2 and (1 + level) / 2 of the binomial distribution, each the first count at which
    its cumulative distribution reaches them. A count lies within with a probability of at least `level`.
    """
    k, p = torch.arange(n + 1, dtype=torch.float64), torch.from_numpy(np.minimum(shares, 1.0))[:, None]
    ways = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    below = (ways + torch.xlogy(k, p) + torch.special.xlog1py(n - k, -p)).exp().cumsum(-1)  # P(count <= k), [k, n + 1]
    reached = [torch.searchsorted(below, torch.full_like(p, at)) for at in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (each[:, 0].clamp(max=n).numpy() for each in reached)
    return low, high


@public(counts=array("V"), shares=array("V"))
def fit(counts: np.ndarray, shares: np.ndarray) -> Fit | None:
    """Run a chi-square test of counts [n] against descending probabilities [n]; None if fewer than two bins remain.

    sum (observed - expected)^2 / expected (Pearson 1900). Neighbors share a bin until at least LEAST draws of it are
    expected.
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
    """Return the first indices of bins with at least LEAST expected draws each; a smaller rest at the end joins the
    last one.
    """
    starts, total = [], 0.0
    for place, share in enumerate(expected.tolist()):
        if not total:
            starts.append(place)
        total = 0.0 if total + share >= LEAST else total + share
    return starts[:-1] if total else starts
