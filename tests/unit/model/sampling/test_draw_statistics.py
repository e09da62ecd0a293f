"""Many draws: the same numbers and tokens as one by one, exact bands, and the chi-square test."""

import numpy as np
import pytest
import torch

from model.sampling.draw_statistics import LEAST, _bins, band, bar_of, fit, uniforms
from model.sampling.pipeline import draw, softmax, uniform

SHARES = np.array([0.5, 0.25, 0.15, 0.0, 0.1])  # token 3 cannot be drawn


@pytest.fixture(scope="module")
def stats():
    """SciPy's tests and distributions; the import takes a second, so only where they are used."""
    from scipy import stats

    return stats


def random_shares(size: int, seed: int = 0) -> np.ndarray:
    return softmax(2 * np.random.default_rng(seed).standard_normal(size))


# --- random numbers ---


@pytest.mark.parametrize(("seed", "first", "row"), [(0, 0, 0), (7, 0, 0), (2**31 - 1, 64, 0), (3, 10**6, 5)])
def test_many_random_numbers_are_those_of_the_steps(seed, first, row):
    assert uniforms(seed, 300, first, row).tolist() == [uniform(seed, first + n, row) for n in range(300)]


def test_no_random_number_is_drawn_twice_and_none_lies_outside():
    u = uniforms(1, 5000)
    assert len(set(u.tolist())) == 5000 and u.min() >= 0 and u.max() < 1
    assert set(u.tolist()).isdisjoint(uniforms(2, 5000).tolist())


def test_random_numbers_are_spread_evenly(stats):
    assert stats.kstest(uniforms(0, 10_000), "uniform").pvalue > 0.01


# --- the bar ---


def test_the_bar_by_hand():
    bar = bar_of(SHARES)
    assert bar.ids.tolist() == [0, 1, 2, 4]
    assert bar.edges.tolist() == pytest.approx([0.5, 0.75, 0.9, 1.0])
    assert bar.places(np.array([0, 0.49, 0.5, 0.76, 0.95])).tolist() == [0, 0, 1, 2, 3]  # an edge begins the next part
    assert [bar.start(place) for place in range(4)] == [0.0, *bar.edges[:3].tolist()]
    assert bar.counts(np.array([0.1, 0.2, 0.99])).tolist() == [2, 0, 0, 1]


def test_equal_tokens_stand_by_their_ids():
    assert bar_of(np.array([0.2, 0.3, 0.2, 0.3])).ids.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("size", [1, 2, 53, 5000])
def test_many_draws_are_those_one_by_one(size):
    shares, u = random_shares(size), uniforms(3, 200)
    bar = bar_of(shares)
    edges = np.concatenate([bar.edges[:50] / bar.total, np.nextafter(bar.edges[:50], 0), [0.0, 1 - 2**-53]])
    u = np.concatenate([u, edges[edges < 1]])  # also on and beside the edges
    assert bar.ids[bar.places(u)].tolist() == [draw(shares, float(each)) for each in u]


def test_counts_follow_the_shares():
    bar = bar_of(random_shares(30))
    counts = bar.counts(uniforms(0, 10_000))
    assert counts.sum() == 10_000
    assert np.abs(counts / 10_000 - bar.shares).max() < 0.02


# --- the band ---


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 10_000])
def test_the_band_is_that_of_the_binomial_distribution(stats, n):
    shares = np.array([0.0, 1e-5, 0.01, 0.2, 0.5, 0.77, 0.999, 1.0])
    low, high = band(n, shares)
    assert low.tolist() == stats.binom.ppf(0.025, n, shares).clip(0).tolist()
    assert high.tolist() == stats.binom.ppf(0.975, n, shares).clip(0).tolist()


def test_the_band_by_hand():
    low, high = band(2, np.array([0.5, 0.1]), level=0.5)  # P(0), P(1), P(2) = 1/4, 1/2, 1/4 and 0.81, 0.18, 0.01
    assert (low.tolist(), high.tolist()) == ([0, 0], [1, 0])


def test_a_share_that_rounding_made_larger_than_one_is_one():
    low, high = band(100, np.array([1.0 + 1e-12]))
    assert low.tolist() == high.tolist() == [100]


def test_at_least_as_much_lies_in_the_band_as_is_said(stats):
    shares = np.array([0.3, 0.02])
    low, high = band(200, shares)
    inside = stats.binom.cdf(high, 200, shares) - stats.binom.cdf(low - 1, 200, shares)
    assert (inside >= 0.95).all() and (inside < 0.99).all()


# --- the test ---


def test_chi_square_by_hand(stats):
    found = fit(np.array([60, 20, 20]), np.array([0.5, 0.3, 0.2]))
    assert found.statistic == pytest.approx(100 / 50 + 100 / 30 + 0)
    assert (found.degrees, found.shared) == (2, 0)
    assert found.p == pytest.approx(stats.chi2.sf(2 + 10 / 3, 2), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_chi_square_is_that_of_scipy(stats, seed):
    bar = bar_of(softmax(0.5 * np.random.default_rng(seed).standard_normal(30)))
    counts, expected = bar.counts(uniforms(seed, 10_000)), 10_000 * bar.shares
    assert expected.min() >= LEAST  # so that every token is a bin
    found, theirs = fit(counts, bar.shares), stats.chisquare(counts, expected * 10_000 / expected.sum())
    assert found.statistic == pytest.approx(theirs.statistic, rel=1e-9)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    assert (found.degrees, found.shared) == (29, 0)


def test_neighbors_share_a_bin_until_enough_are_expected():
    # Of 100: 40, 30, and five times 3 + 3
    shares = np.array([0.4, 0.3] + [0.03] * 10)
    counts = np.array([45, 25] + [3] * 8 + [6, 0])
    found = fit(counts, shares)
    assert (found.degrees, found.shared) == (6, 10)
    assert found.statistic == pytest.approx(25 / 40 + 25 / 30)  # the pairs hold 6 each, as expected


def test_a_small_rest_joins_the_bin_before_it():
    shares = np.array([0.6, 0.3, 0.08, 0.02])  # of 100: 60, 30, 8 and 2, so the last bin is 10
    found = fit(np.array([50, 40, 5, 5]), shares)
    assert (found.degrees, found.shared) == (2, 2)
    assert found.statistic == pytest.approx(100 / 60 + 100 / 30 + 0)


@pytest.mark.parametrize("size", [50, 5000])
def test_no_bin_is_too_small(size):
    bar = bar_of(random_shares(size))
    expected = 1000 * bar.shares
    starts = _bins(expected)
    assert starts[0] == 0 and np.add.reduceat(expected, starts).min() >= LEAST
    assert len(starts) > (expected >= LEAST).sum()


@pytest.mark.parametrize(
    ("counts", "shares"),
    [([100], [1.0]), ([2, 1], [0.5, 0.5]), ([95, 5], [0.97, 0.03]), ([0] * 9 + [9], [0.1] * 10)],
    ids=["one token", "few draws", "a small rest", "all small"],
)
def test_too_little_to_test(counts, shares):
    assert fit(np.array(counts), np.array(shares)) is None


def test_a_wrong_distribution_is_found_and_a_right_one_is_not():
    shares = random_shares(40)
    bar, other = bar_of(shares), bar_of(shares**0.9 / (shares**0.9).sum())
    u = uniforms(0, 10_000)
    assert fit(bar.counts(u), bar.shares).p > 0.01
    assert fit(bar.counts(u), other.shares).p < 1e-3


def test_p_is_spread_evenly_over_seeds(stats):
    """A test that finds too much, or too little, would show here."""
    bar = bar_of(random_shares(20))
    found = [fit(bar.counts(uniforms(seed, 500)), bar.shares).p for seed in range(200)]
    assert stats.kstest(found, "uniform").pvalue > 0.01


def test_numbers_are_plain():
    found = fit(np.array([60, 40]), np.array([0.5, 0.5]))
    assert all(isinstance(value, int | float) and not torch.is_tensor(value) for value in vars(found).values())
