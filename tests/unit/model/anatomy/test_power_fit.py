"""Power laws through points: known exponents come back, and the intervals hold as often as they say."""

import numpy as np
import pytest

from model.anatomy.power_fit import floor_fit, line_fit, smoothed
from model.errors import InputError


def test_a_line_by_hand():
    """Logarithms 0, 1, 2 against 0, −1, −1: slope −1/2, s² = 1/36 + 1/9 + 1/36 = 1/6, so the error is √(1/12)."""
    fit = line_fit(np.exp([0.0, 1.0, 2.0]), np.exp([0.0, -1.0, -1.0]))
    assert fit.exponent == pytest.approx(0.5)
    assert fit.error == pytest.approx((1 / 12) ** 0.5)
    assert fit.high - fit.exponent == pytest.approx(12.7062 * fit.error, rel=1e-4)  # Student, one degree of freedom
    assert fit.scale == pytest.approx(np.exp(-1 / 6)) and fit.floor == 0 and fit.n == 3


def test_an_exact_law_comes_back():
    x = np.geomspace(1e2, 1e8, 12)
    assert line_fit(x, 7 * x**-0.31).exponent == pytest.approx(0.31)
    fit = floor_fit(x, 1.7 + 40 * x**-0.35)
    assert (fit.exponent, fit.floor, fit.scale) == pytest.approx((0.35, 1.7, 40), rel=1e-3)
    assert fit.at(x) == pytest.approx(1.7 + 40 * x**-0.35, rel=1e-4)


@pytest.mark.parametrize("exponent", [0.076, 0.34])
def test_intervals_of_a_line_cover_the_truth(exponent):
    """95 % of 300 intervals: between 270 and 297 with a chance of 0.9999."""
    rng, x = np.random.default_rng(1), np.geomspace(1e6, 1e9, 6)
    fits = [line_fit(x, 20 * x**-exponent * np.exp(rng.normal(0, 0.02, 6))) for _ in range(300)]
    assert 270 <= sum(fit.low <= exponent <= fit.high for fit in fits) <= 297


@pytest.mark.long
@pytest.mark.parametrize("n", [6, 20])
def test_intervals_with_a_floor_cover_the_truth(n):
    """About 95 % of them hold it: at least 54 of 60, below which 95 % fall by chance once in thirty times."""
    rng, x = np.random.default_rng(2), np.geomspace(1e3, 1e6, n)
    fits = [floor_fit(x, 1.5 + 200 * x**-0.5 + rng.normal(0, 0.02, n), seed) for seed in range(60)]
    assert sum(fit.low <= 0.5 <= fit.high for fit in fits) >= 54
    if n < 20:
        return
    assert np.mean([fit.exponent for fit in fits]) == pytest.approx(0.5, abs=0.01)
    assert np.mean([fit.error for fit in fits]) == pytest.approx(np.std([fit.exponent for fit in fits]), rel=0.4)


def test_floor_and_scale_are_not_negative():
    x = np.geomspace(10, 1e4, 8)
    falling = floor_fit(x, 5 * x**-0.2 - 0.1)  # wants a floor below zero
    assert falling.floor == 0.0 and falling.scale > 0
    rising = floor_fit(x, 1 + 0.001 * x)
    assert rising.scale == pytest.approx(0, abs=1e-9) and rising.floor == pytest.approx((1 + 0.001 * x).mean())


@pytest.mark.parametrize(
    ("fit", "x", "y"),
    [
        (line_fit, [1, 2], [2, 1]),
        (line_fit, [1, 1, 1, 2], [3, 2, 1, 1]),
        (line_fit, [1, 2, 3], [1, np.nan, 2]),
        (line_fit, [0, 1, 2], [1, 1, 1]),
        (floor_fit, [1, 2, 3, 4], [4, 3, 2, 1]),
        (line_fit, [], []),
    ],
)
def test_too_few_points_are_said(fit, x, y):
    with pytest.raises(InputError, match="needs more points"):
        fit(np.array(x, float), np.array(y, float))


def test_bins_hold_means():
    x, y = smoothed(np.array([1, 50, 60, 1000.0]), np.array([9, 4, 2, 1.0]), most=2, skip=0.05)
    assert x == pytest.approx([np.sqrt(3000), 1000]) and y == pytest.approx([3, 1])
    x, y = smoothed(np.arange(1, 1001), np.ones(1000))
    assert len(x) <= 24 and (y == 1).all() and x[0] >= 50
