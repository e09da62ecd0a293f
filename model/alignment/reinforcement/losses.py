"""The losses of reinforcement: the policy gradient, PPO's clipped ratio and value, GRPO, and DPO.

log_probs, old and reference are ln p of the written tokens under the policy, under the policy that wrote them, and
under the frozen reference: [N, T], 0 outside `written`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.alignment.reinforcement.likelihoods import k3
from model.public import above, array, between, check_alike, public


def token_mean(values: Tensor, written: Tensor) -> Tensor:
    """Return the mean over all written tokens. [N, T] -> []"""
    return (values * written).sum() / written.sum().clamp(min=1)


def text_mean(values: Tensor, written: Tensor) -> Tensor:
    """Return the mean over the tokens of each text, then over the texts, so that all texts weigh the same.
    [N, T] -> []
    """
    return ((values * written).sum(1) / written.sum(1).clamp(min=1)).mean()


@public(log_probs=array("N T"), advantages=array("N T"), written=array("N T"))
def policy_gradient_loss(log_probs: Tensor, advantages: Tensor, written: Tensor) -> Tensor:
    """Compute -ln p times the advantage: its gradient is minus that of the expected reward. Williams 1992, eq. 5.

    The mean over tokens instead of the sum over a text divides the gradient by the mean length of the batch. advantages
    [N, 1] or [N, T]
    """
    check_alike(log_probs=log_probs, written=written)
    _check_advantages(advantages, log_probs)
    return token_mean(-log_probs * advantages, written)


def _check_advantages(advantages: Tensor, log_probs: Tensor) -> None:
    """Raise InputError unless there is an advantage for each token [N, T], or one for each text [N, 1]."""
    if advantages.shape != log_probs[:, :1].shape:
        check_alike(log_probs=log_probs, advantages=advantages)


def clipped(log_probs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Return -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) of each token, and where the clipped term is the smaller.

    ratio = p / p_old. Once it has left the interval in the direction of the advantage, its gradient is 0. Schulman et
    al. 2017, "Proximal Policy Optimization", eq. 7. [N, T] -> [N, T] float, [N, T] bool
    """
    ratio = torch.exp(log_probs - old)
    plain, held = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(plain, held), held < plain


@public(log_probs=array("N T"), old=array("N T"), advantages=array("N T"), written=array("N T"), clip=above(0))
def ppo_loss(log_probs: Tensor, old: Tensor, advantages: Tensor, written: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Return PPO's policy loss, and the fraction of clipped tokens. Schulman et al. 2017, eq. 7."""
    check_alike(log_probs=log_probs, old=old, advantages=advantages, written=written)
    each, cut = clipped(log_probs, old, advantages, clip)
    return token_mean(each, written), token_mean(cut.float(), written)


@public(values=array("N T"), old=array("N T"), targets=array("N T"), written=array("N T"), clip=above(0))
def value_loss(values: Tensor, old: Tensor, targets: Tensor, written: Tensor, clip: float) -> Tensor:
    """Return half the squared error of the value: the larger of the plain one and one moved at most `clip` from the old
    value.

    Schulman et al. 2017, section 6.1 in its published code; Huang et al. 2022, "The 37 Implementation Details of PPO".
    """
    check_alike(values=values, old=old, targets=targets, written=written)
    moved = old + (values - old).clamp(-clip, clip)
    return 0.5 * token_mean(torch.maximum((values - targets).square(), (moved - targets).square()), written)


@public(
    log_probs=array("N T"),
    old=array("N T"),
    reference=array("N T"),
    advantages=array("N T"),
    written=array("N T"),
    clip=above(0),
    beta=between(0, 1e6),
)
def grpo_loss(
    log_probs: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, written: Tensor, clip: float, beta: float
) -> tuple[Tensor, Tensor]:
    """Return GRPO's loss, clipped ratios plus beta times the k3 estimate of KL, and the fraction of clipped tokens.

    Mean over each text, then over the texts. Shao et al. 2024, "DeepSeekMath", eq. 3 and 4. advantages [N, 1] or [N, T]
    """
    check_alike(log_probs=log_probs, old=old, reference=reference, written=written)
    _check_advantages(advantages, log_probs)
    each, cut = clipped(log_probs, old, advantages.expand_as(log_probs), clip)
    return text_mean(each + beta * k3(log_probs - reference), written), token_mean(cut.float(), written)


@public(chosen=array("M"), rejected=array("M"), chosen_reference=array("M"), rejected_reference=array("M"))
def dpo_margins(chosen: Tensor, rejected: Tensor, chosen_reference: Tensor, rejected_reference: Tensor) -> Tensor:
    """Return ln(p / q) of the chosen text minus that of the rejected one. Arguments are ln of complete texts, [M] each
    -> [M]
    """
    references = {"chosen_reference": chosen_reference, "rejected_reference": rejected_reference}
    check_alike(chosen=chosen, rejected=rejected, **references)
    return (chosen - chosen_reference) - (rejected - rejected_reference)


@public(margins=array("M"), beta=above(0))
def dpo_loss(margins: Tensor, beta: float) -> Tensor:
    """Compute -ln sigmoid(beta margin), the mean over pairs: ln 2 if the policy equals the reference. [M] -> []

    beta margin is the difference of the rewards for which the policy would be optimal under a KL penalty of weight
    beta. Rafailov et al. 2023, "Direct Preference Optimization", eq. 7.
    """
    return -F.logsigmoid(beta * margins).mean()
