"""Many draws from one distribution, and whether they came as often as they should."""

from dataclasses import dataclass

import numpy as np
import torch

from model.sampling.pipeline import order

LEVEL = 0.95  # of a band: the share of repeats in which a count lies inside
LEAST = 5  # expected draws of a bin of the chi-square test; Cochran 1954, section 3
_NEXT = 2**192 - 1  # Philox counts in four words of 64 bits; one number was taken, the next step is the last word + 1


@dataclass(frozen=True, eq=False)
class Bar:
    """A distribution as a bar from 0 to 1: the tokens that can be drawn, the likeliest first, side by side."""

    ids: np.ndarray  # int64 [n]
    shares: np.ndarray  # float64 [n], falling
    edges: np.ndarray  # float64 [n], where each part ends
    total: float  # the length of the bar, 1 up to rounding

    def places(self, u: np.ndarray | float) -> np.ndarray:
        """The part into which each number falls, 0 the likeliest: what model.sampling.draw does, for many at once."""
        return np.minimum(np.searchsorted(self.edges, u * self.total, side="right"), len(self.ids) - 1)

    def start(self, place: int) -> float:
        """Where a part begins."""
        return float(self.edges[place - 1]) if place else 0.0

    def counts(self, u: np.ndarray) -> np.ndarray:
        """How often each token is drawn. [N] -> int64 [n]"""
        return np.bincount(self.places(u), minlength=len(self.ids))


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-square test of counts against what is expected."""

    statistic: float
    degrees: int  # bins - 1: the shares are given, not fitted
    p: float  # how often a faithful draw is at least as far off
    shared: int  # tokens that share a bin with others, because fewer than LEAST draws of each are expected


def bar_of(probabilities: np.ndarray) -> Bar:
    """The bar of a distribution. [V]; what has probability 0 has no part."""
    ids = order(probabilities)
    return Bar(ids, probabilities[ids], np.cumsum(probabilities[ids]), float(probabilities.sum()))


def uniforms(seed: int, n: int, first: int = 0, row: int = 0) -> np.ndarray:
    """The random numbers of the steps first .. first + n - 1: model.sampling.uniform of each. float64 [n]

    One generator whose counter is moved on, instead of a new one a step: about four times as fast.
    """
    bits = np.random.Philox(key=[seed, row], counter=[0, 0, 0, first])
    generator, found = np.random.Generator(bits), np.empty(n)
    for step in range(n):
        found[step] = generator.random()
        bits.advance(_NEXT)
    return found


def band(n: int, shares: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest count of n draws that is still usual, for tokens with these shares. [k] -> [k], [k]

    Exact: the quantiles (1 - level) / 2 and (1 + level) / 2 of the binomial distribution, each the first count at
    which its cumulative distribution reaches them. A count lies within with a probability of at least `level`.
    """
    k, p = torch.arange(n + 1, dtype=torch.float64), torch.from_numpy(np.minimum(shares, 1.0))[:, None]
    ways = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    below = (ways + torch.xlogy(k, p) + torch.special.xlog1py(n - k, -p)).exp().cumsum(-1)  # P(count <= k), [k, n + 1]
    reached = [torch.searchsorted(below, torch.full_like(p, at)) for at in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (each[:, 0].clamp(max=n).numpy() for each in reached)
    return low, high


def fit(counts: np.ndarray, shares: np.ndarray) -> Fit | None:
    """How well counts [n] agree with falling shares [n]; None where fewer than two bins are left to compare.

    sum (observed - expected)^2 / expected (Pearson 1900). Neighbours share a bin until LEAST draws of it are expected.
    """
    expected = counts.sum() * shares / shares.sum()
    starts = _bins(expected)
    if len(starts) < 2:
        return None
    seen, wanted = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    statistic, degrees = float(((seen - wanted) ** 2 / wanted).sum()), len(starts) - 1
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    p = float(torch.special.gammaincc(half[0], half[1]))
    sizes = np.diff([*starts, len(expected)])
    return Fit(statistic, degrees, p, int(sizes[sizes > 1].sum()))


def _bins(expected: np.ndarray) -> list[int]:
    """Where bins begin of which at least LEAST are expected each; what is too small at the end joins the last one."""
    starts, held = [], 0.0
    for place, share in enumerate(expected.tolist()):
        if not held:
            starts.append(place)
        held = 0.0 if held + share >= LEAST else held + share
    return starts[:-1] if held else starts
