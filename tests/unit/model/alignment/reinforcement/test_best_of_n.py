"""Best of n: the estimator against all choices, and the bound on KL."""

import itertools
import math

import numpy as np
import pytest

from model.alignment.reinforcement.best_of_n import expected_best, kl_bound
from model.errors import InputError


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_mean_over_all_choices(n):
    rewards = np.random.default_rng(1).normal(size=(3, 5)).round(1)
    every = [max(choice) for group in rewards.tolist() for choice in itertools.combinations(group, n)]
    assert expected_best(rewards, n) == pytest.approx(np.mean(every))


def test_more_than_there_are_is_refused():
    with pytest.raises(InputError, match="too few texts"):
        expected_best(np.zeros((2, 4)), 5)


def test_the_bound_by_hand_and_against_the_exact_divergence():
    """Best of n from V equally likely tokens of different rewards: p of rank i is (i^n - (i - 1)^n) / V^n."""
    assert kl_bound(1) == 0
    assert kl_bound(4) == pytest.approx(math.log(4) - 0.75)
    V, n = 2000, 4
    ranks = np.arange(1, V + 1)
    p = (ranks**n - (ranks - 1.0) ** n) / float(V) ** n
    exact = float((p * np.log(p * V)).sum())
    assert exact <= kl_bound(n)
    assert exact == pytest.approx(kl_bound(n), abs=1e-3)
