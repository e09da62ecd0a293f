"""Statistics over examples: by hand, against scipy, and by simulation under a known truth."""

import numpy as np
import pytest
import scipy.stats

from model.errors import InputError
from model.sets.statistics import EXACT, bootstrap, random_column, sign_flips, statistics

NORMAL = np.random.default_rng(1)


def test_the_means_and_exact_p_by_hand():
    found = statistics(np.array([[1.0, 0, 5], [2, 0, -4], [3, 0, -1]]))
    assert found.n == 3 and found.flips == 8
    assert found.mean.tolist() == [2, 0, 0]
    # |1 + 2 + 3| is reached by all signs equal, 2 of 8; zeros by every flip; |5 - 4 - 1| = 0 by every flip
    assert found.p.tolist() == [2 / 8, 1, 1]
    # Over sqrt(3 * 14), column 0 has 6; over sqrt(3 * 42), the largest flips of column 2, 10 and 8, are less than that.
    assert found.corrected.tolist() == [2 / 8, 1, 1]


def test_a_corrected_p_counts_the_flips_of_all_columns():
    found = statistics(np.array([[1.0, 2], [2, -1], [3, -1]]))
    # Flipping the first example gives column 1 |-2 - 1 - 1| / sqrt(3 * 6) = 0.943, more than column 0's 0.926.
    assert found.p.tolist() == [2 / 8, 1] and found.corrected.tolist() == [4 / 8, 1]


def test_scale_does_not_matter_to_the_test():
    values = NORMAL.normal(0.4, 1, (30, 4))
    scaled = values * np.array([1, 1e-12, 1e9, 1])
    for one, other in zip(sign_flips(values, 3)[:2], sign_flips(scaled, 3)[:2], strict=True):
        assert np.allclose(one, other)


@pytest.mark.parametrize("n", [EXACT - 1, 25])
def test_p_is_uniform_where_there_is_no_effect(n: int):
    values = NORMAL.laplace(0, 1, (n, 3000))
    p, _, _ = sign_flips(values, draws=1000)
    for level in (0.05, 0.2, 0.5, 0.8):
        assert abs((p <= level).mean() - level) < 0.035, level  # the columns share the flips, whose p also vary


def test_few_sets_without_an_effect_have_any_corrected_p_below_5_percent():
    least = []
    for seed in range(300):
        shared = NORMAL.normal(0, 1, (14, 1))
        values = 0.7 * shared + NORMAL.normal(0, 1, (14, 20))  # correlated, as heads on one prompt are
        p, corrected, _ = sign_flips(values, seed, 199)
        assert (corrected >= p).all()
        least.append((p.min(), corrected.min()))
    uncorrected, corrected = (np.array(least) <= 0.05).mean(0)
    assert 0.02 < corrected < 0.09  # 5% within 3 standard errors
    assert uncorrected > 0.25  # what the correction is for


def test_the_interval_covers_the_mean_as_often_as_it_says():
    values = NORMAL.exponential(1, (40, 3000))
    low, high = bootstrap(values, draws=1000, level=0.9)
    covered = (low <= 1) & (high >= 1)
    assert 0.86 < covered.mean() < 0.92
    assert (low > 1).mean() < 0.08 and (high < 1).mean() < 0.09  # on both sides, although the examples are skewed


def test_the_interval_is_scipys():
    values = NORMAL.exponential(1, (20, 2)) ** 2
    low, high = bootstrap(values, draws=50_000)
    for column in range(2):
        theirs = scipy.stats.bootstrap((values[:, column],), np.mean, n_resamples=50_000, method="BCa", rng=5)
        spread = theirs.confidence_interval.high - theirs.confidence_interval.low
        assert abs(low[column] - theirs.confidence_interval.low) < 0.03 * spread
        assert abs(high[column] - theirs.confidence_interval.high) < 0.03 * spread


def test_equal_values_have_an_interval_without_width_and_one_example_has_none():
    low, high = bootstrap(np.full((5, 1), 0.3))
    assert low == high == 0.3
    assert np.isnan(bootstrap(np.ones((1, 2)))).all()


def test_the_control_is_another_column_of_the_same_example():
    values = np.arange(40.0).reshape(10, 4)
    seen = set()
    for seed in range(20):
        drawn = random_column(values, 2, seed)
        rows, columns = np.divmod(drawn, 4)
        assert rows.tolist() == list(range(10))
        seen |= set(columns.tolist())
    assert seen == {0, 1, 3}
    with pytest.raises(InputError, match="no other column"):
        random_column(values[:, :1], 0)
