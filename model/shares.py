"""Statistics of proportions: the confidence interval of one, and whether two on the same cases differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from model.arguments import check_number
from model.public import public, unchecked, whole

Z95 = 1.959964  # quantile of the normal distribution for a 95% confidence interval
CLEAR = 0.05  # significance level below which two proportions count as different


@public(share=unchecked, n=whole(0, 1 << 50))
def wilson(share: float, n: int) -> tuple[float, float]:
    """Compute the 95% confidence interval of a proportion (0 to 1) in n cases: Wilson 1927. NaN if there are
    no cases.
    """
    if not n:
        return float("nan"), float("nan")
    check_number("share", share, 0, 1)
    z = Z95
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Paired:
    """A comparison of two methods on the same questions; only the questions on which they differ distinguish them."""

    only_first: int  # number of questions that only the first method answered correctly
    only_second: int
    p: float  # p-value of McNemar's exact test, two-sided

    @property
    def clear(self) -> bool:
        """True if a difference this large is unlikely to be due to chance."""
        return self.p < CLEAR


@public()
def paired(first: Sequence[bool], second: Sequence[bool]) -> Paired:
    """Apply McNemar's exact test to two methods on the same questions (McNemar 1947; the binomial form). [n] each

    If both were equally good, each question on which they differ would favor either one like a fair coin: p = 2 P(X <=
    min(b, c)), X binomial with b + c draws of 1/2, at most 1. Raises ValueError if the lengths differ.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} answers are not of the same questions")
    b = sum(bool(x) and not y for x, y in zip(first, second, strict=True))
    c = sum(bool(y) and not x for x, y in zip(first, second, strict=True))
    tail = sum(math.comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    return Paired(b, c, min(1.0, 2 * tail))
