"""Advantages: by hand, against a textbook's double sum, and the identities of GAE."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.alignment.reinforcement.advantages import (
    gae,
    group_normalized,
    leave_one_out,
    returns,
    token_rewards,
    whiten,
)
from model.errors import InputError
from model.public import without_checks
from tests.support.models.helpers import assert_close

FEW = settings(max_examples=40, deadline=None)


@st.composite
def texts(draw):
    """Rewards, values and masks of up to 4 ragged texts of up to 6 tokens. [N, T] each"""
    N, T = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    numbers = st.floats(-3, 3, width=32)
    rewards, values = (torch.tensor(draw(st.lists(numbers, min_size=N * T, max_size=N * T))).view(N, T) for _ in "rv")
    written = torch.zeros(N, T, dtype=torch.bool)
    for row in range(N):
        start = draw(st.integers(0, T - 1))
        written[row, start : draw(st.integers(start + 1, T))] = True
    return rewards * written, values * written, written


def textbook_gae(rewards, values, written, gamma, lam):
    """Schulman et al. 2016, eq. 16, as the double sum that it is written as."""
    out = torch.zeros_like(rewards)
    for row, mask in enumerate(written):
        places = mask.nonzero()[:, 0].tolist()
        r, v = rewards[row, places].tolist(), [*values[row, places].tolist(), 0.0]
        delta = [r[t] + gamma * v[t + 1] - v[t] for t in range(len(r))]
        for t, place in enumerate(places):
            out[row, place] = sum((gamma * lam) ** k * delta[t + k] for k in range(len(r) - t))
    return out


def test_gae_by_hand():
    """delta = 1 + 0.5 * 4 - 2 = 1 and 3 + 0 - 4 = -1; the first advantage is 1 + 0.5 * 0.5 * -1."""
    ones = torch.ones(1, 2, dtype=torch.bool)
    found = gae(torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 4.0]]), ones, 0.5, 0.5)
    assert found.tolist() == [[0.75, -1.0]]


@FEW
@given(texts(), st.floats(0, 1), st.floats(0, 1))
def test_gae_is_the_textbooks_sum(case, gamma, lam):
    rewards, values, written = case
    assert_close(gae(rewards, values, written, gamma, lam), textbook_gae(rewards, values, written, gamma, lam), 1e-4)


@FEW
@given(texts(), st.floats(0, 1))
def test_lambda_one_is_returns_minus_values(case, gamma):
    rewards, values, written = case
    assert_close(gae(rewards, values, written, gamma, 1.0), returns(rewards, written, gamma) - values, 1e-4)


@FEW
@given(texts(), st.floats(0, 1))
def test_lambda_zero_is_the_one_step_error(case, gamma):
    rewards, values, written = case
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)  # 0 after the end: the mask is in `values`
    assert_close(gae(rewards, values, written, gamma, 0.0), (rewards + gamma * after - values) * written, 1e-5)


def test_returns_by_hand():
    written = torch.tensor([[False, True, True, False]])
    found = returns(torch.tensor([[9.0, 1.0, 2.0, 9.0]]), written, 0.5)
    assert found.tolist() == [[0.0, 2.0, 2.0, 0.0]]


def test_a_text_is_paid_at_its_end():
    """The row adds up to r - beta ln(p / q); the first text ends at its second token, the other at its last."""
    written = torch.tensor([[True, True, False], [False, True, True]])
    ratios = torch.tensor([[1.0, -2.0, 0.0], [0.0, 4.0, 0.5]])
    found = token_rewards(torch.tensor([1.0, -1.0]), ratios, written, 0.5)
    assert found.tolist() == [[-0.5, 2.0, 0.0], [0.0, -2.0, -1.25]]
    assert_close(found.sum(1), torch.tensor([1.0, -1.0]) - 0.5 * ratios.sum(1), 1e-6)


@FEW
@given(st.lists(st.floats(-5, 5, width=32), min_size=8, max_size=8))
def test_advantages_of_a_group_sum_to_zero(rewards):
    found = torch.tensor(rewards)
    for each in (group_normalized(found, 4), leave_one_out(found, 4)):
        assert_close(each.view(2, 4).sum(1), torch.zeros(2), 2e-4)


def test_a_group_by_hand():
    """Mean 1, deviation sqrt(2 / 3) of (0, 1, 2); a group of equals has no advantage."""
    found = group_normalized(torch.tensor([0.0, 1.0, 2.0, 5.0, 5.0, 5.0]), 3)
    step = 1 / math.sqrt(2 / 3)
    assert_close(found, torch.tensor([-step, 0, step, 0, 0, 0]), 1e-5)
    assert leave_one_out(torch.tensor([1.0, 2.0, 6.0]), 3).tolist() == [-3.0, -1.5, 4.5]


def test_whitened_numbers_have_mean_zero_and_deviation_one():
    written = torch.tensor([[True, True, False], [True, True, True]])
    found = whiten(torch.tensor([[1.0, 2.0, 77.0], [3.0, 4.0, 5.0]]), written)
    assert found[0, 2] == 0
    assert found[written].mean().item() == pytest.approx(0, abs=1e-6)
    assert found[written].std(correction=0).item() == pytest.approx(1, abs=1e-5)


EQUAL = [n / 100 for n in range(1, 101)] + [-4.8, 100.1, 1e6 + 0.1, -2.3, 0.056, 3e38, 1e-30]


@pytest.mark.parametrize("group", [2, 3, 7, 10, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_have_no_advantage_at_all(group, dtype):
    """The mean of equal numbers can be off by a unit in the last place, which is nobody's advantage."""
    rewards = torch.tensor(EQUAL, dtype=dtype).repeat_interleave(group)
    assert not group_normalized(rewards, group).any() and group_normalized(rewards, group).dtype == dtype
    for each in EQUAL:
        values = torch.full((1, group), each, dtype=dtype)
        assert not whiten(values, torch.ones(1, group, dtype=torch.bool)).any()
    if dtype == torch.float32:
        assert not leave_one_out(rewards, group).any()


@FEW
@given(st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4), st.sampled_from([1e-3, 1.0, 1e6]))
def test_rewards_that_differ_by_rounding_alone_are_equal_whatever_their_size(nudges, size):
    base = torch.full((4,), size)
    nudged = torch.nextafter(base, torch.tensor([float("inf") if n > 0 else 0.0 for n in nudges]))
    assert not group_normalized(nudged, 4).any()


def test_a_small_difference_of_large_rewards_counts():
    """Of 1,000 and 1,000.01 the deviation is 0.005, and the advantages are as of 0 and 1."""
    found = group_normalized(torch.tensor([1000.0, 1000.01]), 2)
    assert_close(found, torch.tensor([-1.0, 1.0]), 5e-4)


def test_whitening_nothing_gives_zeros():
    nothing = whiten(torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool))
    assert nothing.tolist() == [[0, 0, 0]] * 2


def test_what_is_no_number_is_refused_and_in_a_training_stays_none():
    rewards = torch.tensor([1.0, math.nan, 1.0, 2.0])
    with pytest.raises(InputError, match=r"not finite\. Got: rewards"):
        group_normalized(rewards, 2)
    assert without_checks(group_normalized)(rewards, 2).isnan().tolist() == [True, True, False, False]
