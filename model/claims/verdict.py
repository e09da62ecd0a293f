"""From the numbers of the texts to a verdict: mean, 95% interval, and whether the claim holds."""

import math
from dataclasses import dataclass

import numpy as np

from model.claims.registry import Claim
from model.shares import wilson

LEAST_TEXTS = 5  # fewer texts with a number give no verdict
MOST_TEXTS_AGREE = 2 / 3  # fraction of the texts that must fit a claim for it to be true, or not fit for it to be false
TRUE, FALSE, DEPENDS, UNABLE = "true", "false", "depends", "unable"


@dataclass(frozen=True)
class Verdict:
    """The result of a claim on the texts where it has a number."""

    state: str  # TRUE, FALSE, DEPENDS or UNABLE
    texts: int  # number of texts with a number
    mean: float
    low: float  # 95% interval of the mean over texts
    high: float
    agree: float  # fraction of the texts whose own number fits the claim


def interval(values: np.ndarray) -> tuple[float, float]:
    """Compute the 95% interval of the mean: mean ± t sd / √n, with n - 1 degrees of freedom. values [n], n > 1

    For numbers that are only 0 or 1, it is Wilson's interval of a proportion, which stays between 0 and 1.
    """
    n, mean = len(values), float(values.mean())
    if np.isin(values, (0, 1)).all():
        return wilson(mean, n)
    from scipy.special import stdtrit  # imported here, since it takes a fifth of the app's import time

    half = float(stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(n)
    return mean - half, mean + half


def judge(claim: Claim, values: np.ndarray) -> Verdict:
    """Judge a claim by its numbers on the texts, NaN where a text has none. values [N]

    True: the whole interval fits the claim, and at least two thirds of the texts do. False: no end of the interval fits
    it, and at most one third of the texts do. Otherwise it depends on the text.
    """
    known = values[np.isfinite(values)].astype(np.float64)
    if len(known) < LEAST_TEXTS:
        return Verdict(UNABLE, len(known), math.nan, math.nan, math.nan, math.nan)
    mean, (low, high) = float(known.mean()), interval(known)
    agree = float(np.mean([claim.holds(value) for value in known]))
    inside = claim.holds(low) and claim.holds(high)
    outside = (claim.low is not None and high <= claim.low) or (claim.high is not None and low >= claim.high)
    state = DEPENDS
    if inside and (agree >= MOST_TEXTS_AGREE or of_the_mean(claim, known)):
        state = TRUE
    elif outside and (agree <= 1 - MOST_TEXTS_AGREE or of_the_mean(claim, known)):
        state = FALSE
    return Verdict(state, len(known), mean, low, high, agree)


def of_the_mean(claim: Claim, values: np.ndarray) -> bool:
    """Return whether a claim is about the mean alone: it names a value, or the texts' numbers are only 0 and 1."""
    return (claim.low is not None and claim.high is not None) or bool(np.isin(values, (0, 1)).all())


def example(values: np.ndarray) -> int | None:
    """Return the index of the text whose number is nearest to the median; None if no text has a number. values [N]"""
    if not np.isfinite(values).any():
        return None
    return int(np.nanargmin(np.abs(values - np.nanmedian(values))))
