"""Scores without their scaling: the Jacobian against autograd, and what random vectors do."""

import itertools
import math

import numpy as np
import pytest
import torch

from model.design.score_scaling import (
    SIZES,
    drawn,
    jacobian_norm,
    lookup,
    products,
    rows_of,
    scaled,
    softmax,
    summary,
)
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model, tokens_of


@pytest.mark.parametrize("seed", range(4))
def test_the_jacobian_is_what_autograd_says(seed):
    scores = torch.randn(7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * (seed + 1)
    exact = torch.autograd.functional.jacobian(lambda x: x.softmax(0), scores).norm()
    assert jacobian_norm(scores.softmax(0).numpy()) == pytest.approx(float(exact), rel=1e-12)


def test_a_look_up_is_what_is_left_of_attention_at_no_temperature():
    scores, values = np.array([0.0, math.log(3), np.nan]), np.array([[4.0, 0.0], [0.0, 2.0], [9.0, 9.0]])
    found = lookup(scores, values, np.array([1e-3, 1.0, 1e9]))
    assert found.best == 1
    assert_close(found.weights, [[0, 1, 0], [1 / 4, 3 / 4, 0], [1 / 2, 1 / 2, 0]], 1e-8)
    # At T = 1 the output is (1, 1.5), which is (1, -0.5) away from (0, 2).
    assert_close(found.apart, [0, math.hypot(1, 0.5) / 2, math.hypot(2, 1) / 2], 1e-8)
    assert np.isnan(lookup(scores, np.zeros((3, 2))).apart).all()


def test_jacobians_by_hand():
    assert jacobian_norm(np.array([1.0, 0.0, 0.0])) == 0
    assert jacobian_norm(np.array([0.5, 0.5])) == pytest.approx(0.5)
    assert jacobian_norm(np.full(10, 0.1)) == pytest.approx(math.sqrt(9) / 10)
    assert jacobian_norm(np.array([0.25, 0.75])) == pytest.approx(2 * 0.25 * 0.75)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_power_one_half_is_the_pattern_of_the_model(variant):
    trace = run(tiny_model(VARIANTS[variant]), tokens_of(random_ids(1, 9)[0]))
    d = trace.config.d_head
    dots = products(trace.scores(1, 2), d)
    assert_close(softmax(scaled(dots, d, 0.5)), trace.pattern(1, 2), 1e-6)
    if trace.config.positions != "rope":
        found = trace.qkv(1, 2)
        exact = found.q.astype(float) @ found.k.astype(float).T
        assert_close(dots[np.tri(9, dtype=bool)], exact[np.tri(9, dtype=bool)], 1e-4)


def test_rows_by_hand():
    scores = np.array([[0.0, np.nan], [0.0, math.log(3)], [np.nan, np.nan]])
    found = rows_of(scores)
    assert found.keys.tolist() == [1, 2, 0]
    assert found.entropy[0] == 0 and found.largest[0] == 1 and found.jacobian[0] == 0
    assert found.entropy[1] == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert found.largest[1] == pytest.approx(0.75) and found.jacobian[1] == pytest.approx(0.375)
    assert np.isnan([found.entropy[2], found.largest[2], found.jacobian[2]]).all()


def test_large_scores_do_not_overflow():
    found = rows_of(np.array([[1e4, 0.0, -1e4]]))
    assert found.largest[0] == 1 and found.entropy[0] == 0 and found.jacobian[0] == 0


def test_a_summary_by_hand():
    dots = np.array([[4.0, np.nan], [0.0, 2 * math.log(3)]])
    found = summary(dots, 4, 0.5)  # only the second row has a choice: scores 0 and ln 3
    assert found.deviation == pytest.approx(math.log(3) / 2)
    assert found.largest == pytest.approx(0.75) and found.jacobian == pytest.approx(0.375)
    assert found.evenness == pytest.approx(found.entropy / math.log(2)) and found.saturated == 0
    assert summary(dots, 4, 0.0).largest == pytest.approx(0.9)  # ln 9
    assert summary(1e3 * dots, 4, 0.0).saturated == 1
    assert summary(np.array([[1.0]]), 4, 0.5) is None


def test_more_division_makes_rows_more_even():
    trace = run(tiny_model(), tokens_of(random_ids(1, 30)[0]))
    dots = products(trace.scores(1, 2), trace.config.d_head)
    found = [summary(dots, trace.config.d_head, power) for power in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for sharper, softer in itertools.pairwise(found):
        assert sharper.entropy < softer.entropy and sharper.largest > softer.largest
        assert sharper.deviation > softer.deviation


def test_random_products_have_the_variance_of_their_size():
    found = drawn()
    assert tuple(each.size for each in found) == SIZES
    for each in found:
        # The relative error of a variance of n normal products is about sqrt(2 / n); keys are shared by 64 rows.
        assert each.variance == pytest.approx(each.size, rel=0.1)
        assert each.scaled_variance == pytest.approx(each.variance / each.size)
    for less, more in itertools.pairwise(found):
        assert more.entropy[0] < less.entropy[0] and more.largest[0] > less.largest[0]
        assert more.jacobian[0] < less.jacobian[0]
        assert more.entropy[1] == pytest.approx(less.entropy[1], abs=0.05)
        assert more.jacobian[1] == pytest.approx(less.jacobian[1], rel=0.05)
    assert found[-1].jacobian[0] < 0.5 * found[-1].jacobian[1] and found == drawn()
