"""Losses: by hand, against a textbook's loop over tokens, clipping as a property, gradients by finite differences."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model.alignment.reinforcement.likelihoods import entropy, exact_kl, k1, k3, perplexity
from model.alignment.reinforcement.losses import (
    clipped,
    dpo_loss,
    dpo_margins,
    grpo_loss,
    policy_gradient_loss,
    ppo_loss,
    text_mean,
    token_mean,
    value_loss,
)
from tests.support.models.helpers import assert_close

RAGGED = torch.tensor([[True, True, True, False], [False, True, False, False], [True, True, True, True]])


def numbers(seed: int, scale: float = 1.0) -> torch.Tensor:
    """Random numbers in the written places. float64 [3, 4]"""
    return scale * torch.randn(3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * RAGGED


def test_means_over_tokens_and_over_texts():
    values = torch.tensor([[1.0, 2.0, 3.0, 50.0], [50.0, 10.0, 50.0, 50.0], [0.0, 0.0, 0.0, 4.0]])
    assert token_mean(values, RAGGED).item() == pytest.approx(20 / 8)
    assert text_mean(values, RAGGED).item() == pytest.approx((2 + 10 + 1) / 3)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "cut"),
    [
        (1.5, 2.0, -2.4, True),
        (1.1, 2.0, -2.2, False),
        (0.5, 2.0, -1.0, False),
        (0.5, -2.0, 1.6, True),
        (1.5, -2, 3, False),
    ],
)
def test_clipping_by_hand(ratio, advantage, loss, cut):
    """clip = 0.2: figure 1 of Schulman et al. 2017, one point on each of its lines."""
    each, held = clipped(torch.tensor(math.log(ratio)), torch.tensor(0.0), torch.tensor(float(advantage)), 0.2)
    assert each.item() == pytest.approx(loss)
    assert held.item() is cut


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0.05, 0.9))
def test_clipping_stops_the_gradient_where_the_ratio_has_gone_far_enough(log_ratio, advantage, clip):
    assume(advantage == 0 or abs(advantage) > 1e-9)  # a product of fewer is rounded to nothing
    found = torch.tensor(log_ratio, dtype=torch.float64, requires_grad=True)
    each, held = clipped(found, torch.zeros_like(found), torch.tensor(advantage, dtype=torch.float64), clip)
    each.backward()
    ratio = math.exp(log_ratio)
    beyond = (advantage > 0 and ratio > 1 + clip) or (advantage < 0 and ratio < 1 - clip)
    assert held.item() is beyond
    assert found.grad.item() == pytest.approx(0.0 if beyond else -advantage * ratio)
    assert each.item() >= -ratio * advantage - 1e-9  # a bound on what is gained, from below


def test_ppo_is_the_textbooks_loop():
    new, old, advantages = numbers(1, 0.4), numbers(2, 0.4), numbers(3)
    total, cut = 0.0, 0
    for row, column in RAGGED.nonzero().tolist():
        ratio, a = math.exp(new[row, column] - old[row, column]), float(advantages[row, column])
        total -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
        cut += (a > 0 and ratio > 1.2) or (a < 0 and ratio < 0.8)
    loss, share = ppo_loss(new, old, advantages, RAGGED, 0.2)
    assert loss.item() == pytest.approx(total / 8)
    assert share.item() == pytest.approx(cut / 8) and 0 < cut < 8


def test_one_pass_without_clipping_is_the_policy_gradient():
    """At p = p_old the ratio's gradient is that of ln p: the same numbers for every parameter."""
    advantages, found = numbers(3), []
    for loss in (
        lambda new: ppo_loss(new, new.detach(), advantages, RAGGED, 1e9)[0],
        lambda new: policy_gradient_loss(new, advantages, RAGGED),
    ):
        new = numbers(1).requires_grad_(True)
        loss(new).backward()
        found.append(new.grad)
    assert_close(found[0], found[1], 1e-12)
    assert found[0].abs().sum() > 0.1


def test_value_loss_takes_the_larger_of_two_errors():
    """Value 1 moved from 0, target 3: unclipped 4, clipped to 0.2 it is 7.84. Target -1: 4 against 1.44."""
    old, new, one = torch.zeros(1, 1), torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    assert value_loss(new, old, torch.full((1, 1), 3.0), one, 0.2).item() == pytest.approx(7.84 / 2)
    assert value_loss(new, old, torch.full((1, 1), -1.0), one, 0.2).item() == pytest.approx(4 / 2)


def test_grpo_is_the_textbooks_loop():
    new, old, reference = numbers(1, 0.3), numbers(2, 0.3), numbers(4, 0.3)
    advantages, total = torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64), 0.0
    for row in range(3):
        text = 0.0
        for column in RAGGED[row].nonzero()[:, 0].tolist():
            ratio, a = math.exp(new[row, column] - old[row, column]), float(advantages[row])
            back = math.exp(reference[row, column] - new[row, column])
            text += min(ratio * a, min(max(ratio, 0.8), 1.2) * a) - 0.04 * (back - math.log(back) - 1)
        total += text / int(RAGGED[row].sum())
    assert grpo_loss(new, old, reference, advantages, RAGGED, 0.2, 0.04)[0].item() == pytest.approx(-total / 3)


# --- DPO ---


def test_dpo_at_the_reference_is_ln_2():
    margins = dpo_margins(*(torch.tensor([x]) for x in (-3.0, -5.0, -3.0, -5.0)))
    assert dpo_loss(margins, 0.7).item() == pytest.approx(math.log(2))


def test_dpo_by_hand():
    """Margins 2 and -1, beta 0.5: ln(1 + e^-1) and ln(1 + e^0.5)."""
    margins = dpo_margins(*map(torch.tensor, ([-3.0, -6.0], [-5.0, -5.0], [-4.0, -5.0], [-4.0, -5.0])))
    assert margins.tolist() == [2.0, -1.0]
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(0.5))) / 2
    assert dpo_loss(margins, 0.5).item() == pytest.approx(expected)


def test_dpos_gradient_by_finite_differences():
    """Of a policy with logits of its own: three tokens after each of two places, chosen 0 2, rejected 1 1."""
    logits = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reference = torch.tensor([-1.0, -2.5], dtype=torch.float64)

    def loss(logits):
        log_p = logits.log_softmax(-1)
        chosen, rejected = log_p[0, 0] + log_p[1, 2], log_p[0, 1] + log_p[1, 1]
        return dpo_loss(dpo_margins(chosen[None], rejected[None], reference[:1], reference[1:]), 0.3)

    exact = logits.clone().requires_grad_(True)
    loss(exact).backward()
    found, step = torch.zeros_like(logits), 1e-6
    for place in range(6):
        moved = torch.zeros(6, dtype=torch.float64)
        moved[place] = step
        found.view(-1)[place] = (loss(logits + moved.view(2, 3)) - loss(logits - moved.view(2, 3))) / (2 * step)
    assert_close(exact.grad, found, 1e-8)
    assert exact.grad.abs().max() > 0.05


# --- KL and entropy ---


def test_kl_of_two_coins():
    """p = (3/4, 1/4), q = (1/2, 1/2): KL = 3/4 ln(3/2) + 1/4 ln(1/2); a token that neither draws counts nothing."""
    log_p, log_q = (torch.tensor(x).log() for x in ([0.75, 0.25, 0.0], [0.5, 0.5, 0.0]))
    assert exact_kl(log_p, log_q).item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert entropy(log_p).item() == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert exact_kl(log_p, log_p).item() == 0


def test_both_estimates_are_right_on_average_and_k3_is_never_negative():
    """The mean over the policy's own distribution, no drawing needed: sum of p times the estimate."""
    generator = torch.Generator().manual_seed(5)
    logits, moved = (torch.randn(9, generator=generator, dtype=torch.float64) for _ in "pq")
    log_p, log_q = logits.log_softmax(-1), (logits + 0.3 * moved).log_softmax(-1)  # near, as a leash keeps them
    ratios, exact = log_p - log_q, exact_kl(log_p, log_q)
    for estimate in (k1, k3):
        assert_close((log_p.exp() * estimate(ratios)).sum(), exact, 1e-12)
    assert (k3(ratios) >= 0).all() and (k1(ratios) < 0).any()
    spread = [(log_p.exp() * (estimate(ratios) - exact) ** 2).sum().item() for estimate in (k1, k3)]
    assert spread[1] < spread[0]  # what the estimate was made for


def test_perplexity_of_even_odds():
    written = torch.tensor([[True, True, False]])
    assert perplexity(torch.tensor([[math.log(0.25), math.log(0.25), 0.0]]), written) == pytest.approx(4)
