"""Verdicts: the interval against the bounds of a claim, and the share of the texts that fit."""

import math

import numpy as np
import pytest
from scipy import stats

from model.claims.registry import CLAIMS, GROUPS, NEEDS, UNITS, Claim, missing
from model.claims.verdict import LEAST_TEXTS, example, interval, judge
from model.shares import wilson
from tests.support.models.helpers import VARIANTS, tiny_config

ABOVE, BELOW = Claim(lambda text: 0.0, "share", low=0.5), Claim(lambda text: 0.0, "share", high=0.5)
BETWEEN = Claim(lambda text: 0.0, "points", low=-1, high=1)


def around(center, spread=0.01, n=20):
    return center + spread * np.linspace(-1, 1, n)


@pytest.mark.parametrize(
    ("claim", "values", "state"),
    [
        (ABOVE, around(0.9), "true"),
        (ABOVE, around(0.1), "false"),
        (ABOVE, around(0.5), "depends"),
        (BELOW, around(0.1), "true"),
        (BELOW, around(0.9), "false"),
        (BETWEEN, around(0, 5), "depends"),  # its interval reaches beyond both bounds
        (BETWEEN, around(0, 2, 200), "true"),  # about the mean, however far single texts lie
        (BETWEEN, around(5), "false"),
        (BETWEEN, around(-5), "false"),
        (ABOVE, np.array([9.0] * 6 + [0.45] * 4), "depends"),  # the mean is above, but four in ten texts are not
        (ABOVE, np.array([1.0] * 9 + [0.0]), "true"),
        (ABOVE, np.array([1.0] * 6 + [0.0] * 4), "depends"),
        (ABOVE, around(0.9, n=LEAST_TEXTS - 1), "unable"),
        (ABOVE, np.full(9, np.nan), "unable"),
    ],
)
def test_verdicts(claim, values, state):
    assert judge(claim, values).state == state


def test_texts_without_a_number_do_not_count():
    verdict = judge(ABOVE, np.append(around(0.9), [np.nan, np.nan]))
    assert (verdict.state, verdict.texts, verdict.agree) == ("true", 20, 1) and verdict.mean == pytest.approx(0.9)


def test_the_interval_is_that_of_scipy():
    values = np.random.default_rng(0).normal(3, 2, 30)
    expected = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert interval(values) == pytest.approx(expected)


def test_numbers_of_yes_and_no_have_an_interval_within_0_and_1():
    values = np.array([1.0] * 19 + [0.0])
    assert interval(values) == wilson(0.95, 20) and interval(values)[1] <= 1
    assert interval(np.ones(9))[1] == 1 and not math.isnan(interval(np.ones(9))[0])


def test_the_example_is_next_to_the_median():
    assert example(np.array([0.0, np.nan, 4.9, 5.0, 100])) in (2, 3) and example(np.full(3, np.nan)) is None


def test_there_are_sixty_claims_with_bounds_units_and_needs():
    assert len(CLAIMS) == 60 == sum(map(len, GROUPS.values())) and len(GROUPS) == 6
    for key, claim in CLAIMS.items():
        assert claim.unit in UNITS and (claim.needs or "attention") in NEEDS, key
        assert claim.low is not None or claim.high is not None, key
        assert claim.low is None or claim.high is None or claim.low < claim.high, key
        assert claim.measure.__doc__, key


@pytest.mark.parametrize(
    ("key", "changes", "lacks"),
    [
        ("mean_matters", VARIANTS["llama"], "layernorm"),
        ("mean_matters", VARIANTS["gpt2"], ""),
        ("positions", VARIANTS["llama"], "position_vectors"),
        ("positions", VARIANTS["post"], ""),
        ("first_token", {"mixer": "linear"}, "attention"),
        ("one_head", {"mixer": "sliding_window", "window": 4}, "full_attention"),
        ("first_token", {"mixer": "sliding_window", "window": 4}, ""),
        ("silent", {"n_expert": 4}, "dense"),
        ("swap", {"n_layer": 1}, "two_layers"),
        ("top_p", {"mixer": "linear"}, ""),
    ],
)
def test_a_model_may_lack_what_a_claim_needs(key, changes, lacks):
    assert missing(key, tiny_config(changes)) == lacks
