"""From rewards to advantages: how much better than expected each token or text was.

Rows are texts, and each position predicts a next token, as in rollouts.py. `written` marks the positions that predict a
generated token, which are contiguous in each row.
"""

import torch
from torch import Tensor

from model.errors import InputError
from model.public import above, array, between, check_alike, public, whole


@public(rewards=array("N"), log_ratios=array("N T"), written=array("N T"), coefficient=between(0, 1e6))
def token_rewards(rewards: Tensor, log_ratios: Tensor, written: Tensor, coefficient: float) -> Tensor:
    """Compute the reward of each token: -coefficient times its log-ratio to the reference, plus the text's reward at
    its last token.

    R(x, y) = r(x, y) - beta ln(p(y | x) / q(y | x)), distributed over the tokens: Ziegler et al. 2019, 2.2; Stiennon et
    al. 2020. rewards [N], log_ratios and written [N, T] -> [N, T], whose rows sum to R.
    """
    check_alike(log_ratios=log_ratios, written=written)
    check_one_each(rewards, written)
    last = written & ~torch.cat([written[:, 1:], torch.zeros_like(written[:, :1])], 1)
    return torch.where(written, -coefficient * log_ratios, 0.0) + last * rewards[:, None]


@public(rewards=array("N T"), written=array("N T"), gamma=between(0, 1))
def returns(rewards: Tensor, written: Tensor, gamma: float = 1.0) -> Tensor:
    """Compute the discounted sum of each token's reward and all later ones. [N, T] -> [N, T], 0 outside `written`"""
    check_alike(rewards=rewards, written=written)
    total, out = torch.zeros_like(rewards[:, 0]), torch.zeros_like(rewards)
    for place in reversed(range(rewards.shape[1])):
        total = torch.where(written[:, place], rewards[:, place] + gamma * total, 0.0)
        out[:, place] = total
    return out


@public(rewards=array("N T"), values=array("N T"), written=array("N T"), gamma=between(0, 1), lam=between(0, 1))
def gae(rewards: Tensor, values: Tensor, written: Tensor, gamma: float = 1.0, lam: float = 0.95) -> Tensor:
    """Estimate generalized advantages: sum over k of (gamma lam)^k delta_(t+k), delta_t = r_t + gamma V_(t+1) - V_t.

    The value after the last token of a text is 0. lam = 1 gives returns minus values, lam = 0 the one-step
    temporal-difference error delta. Schulman et al. 2016, "High-Dimensional Continuous Control", eq. 16. [N, T] each
    -> [N, T]
    """
    check_alike(rewards=rewards, values=values, written=written)
    running, after, out = (torch.zeros_like(rewards[:, 0]), torch.zeros_like(values[:, 0]), torch.zeros_like(rewards))
    for place in reversed(range(rewards.shape[1])):
        delta = rewards[:, place] + gamma * after - values[:, place]
        running = torch.where(written[:, place], delta + gamma * lam * running, 0.0)
        after = torch.where(written[:, place], values[:, place], 0.0)
        out[:, place] = running
    return out


@public(rewards=array("N"), group=whole(2))
def leave_one_out(rewards: Tensor, group: int) -> Tensor:
    """Subtract from each reward the mean of the others in its group: a baseline that does not depend on the text
    itself.

    Williams 1992, section 4, requires such a baseline; this one is from Kool et al. 2019. Computed in float64, so that
    equal float32 rewards give exactly 0. rewards [N], in consecutive groups of `group` -> [N]
    """
    check_groups(rewards, group)
    groups = rewards.double().view(-1, group)
    others = (groups.sum(1, keepdim=True) - groups) / (group - 1)
    return (groups - others).flatten().to(rewards.dtype)


@public(rewards=array("N"), group=whole(1), least=above(0))
def group_normalized(rewards: Tensor, group: int, least: float = 1e-6) -> Tensor:
    """Compute (r - mean) / (standard deviation + least) within each group of texts of one prompt. Shao et al. 2024,
    4.1.2.

    The advantages of a group sum to 0; if all its rewards are equal, each is 0. rewards [N] -> [N]
    """
    check_groups(rewards, group)
    return standardized(rewards.view(-1, group), least).flatten()


@public(values=array("N T"), written=array("N T"), least=above(0))
def whiten(values: Tensor, written: Tensor, least: float = 1e-6) -> Tensor:
    """Scale the values to mean 0 and standard deviation 1 over the generated tokens, with 0 elsewhere. [N, T]

    Equal values become 0.
    """
    check_alike(values=values, written=written)
    out = torch.zeros_like(values)
    out[written] = standardized(values[written][None], least)[0]
    return out


def standardized(values: Tensor, least: float) -> Tensor:
    """Compute (x - mean) / (standard deviation + least) of each row, and 0 for a row that varies only by rounding.

    Computed in float64. Rounding is a standard deviation of at most four epsilons of the dtype times the row's largest
    absolute value: a relative bound, since the mean of equal float32 numbers near 100 can be off by more than a fixed
    `least`. A row with NaN becomes NaN. [G, N] -> [G, N]
    """
    if not values.numel():
        return values
    exact = values.double()
    centered = exact - exact.mean(1, keepdim=True)
    deviation = centered.square().mean(1, keepdim=True).sqrt()
    rounding = 4 * torch.finfo(values.dtype).eps * exact.abs().amax(1, keepdim=True)
    return torch.where(deviation <= rounding, 0.0, centered / (deviation + least)).to(values.dtype)


def check_groups(rewards: Tensor, group: int) -> None:
    """Raise InputError unless the number of rewards is a multiple of the group size."""
    if len(rewards) % group:
        got = f"{len(rewards)} rewards, group: {group}"
        raise InputError(
            "The number of rewards is not a multiple of the group size.",
            got,
            "Give one reward for each text of each group.",
        )


def check_one_each(rewards: Tensor, written: Tensor) -> None:
    """Raise InputError unless there is exactly one reward for each text."""
    if len(rewards) != len(written):
        got = f"rewards: {len(rewards)}, written: {len(written)}"
        raise InputError(
            "The number of rewards differs from the number of texts.", got, "Give one reward for each text."
        )
