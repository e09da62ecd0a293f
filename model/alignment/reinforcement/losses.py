"""Loss functions of reinforcement learning: policy gradient, PPO's clipped ratio and value loss, GRPO, and DPO.

`log_probs`, `old` and `reference` are ln p of the generated tokens under the policy, under the policy that generated
them, and under the frozen reference: [N, T], 0 outside `written`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.alignment.reinforcement.likelihoods import k3
from model.public import above, array, between, check_alike, public


def token_mean(values: Tensor, written: Tensor) -> Tensor:
    """Average over all generated tokens. [N, T] -> []"""
    return (values * written).sum() / written.sum().clamp(min=1)


def text_mean(values: Tensor, written: Tensor) -> Tensor:
    """Average over the tokens of each text, then over the texts, so that all texts have the same
    weight. [N, T] -> []
    """
    return ((values * written).sum(1) / written.sum(1).clamp(min=1)).mean()


@public(log_probs=array("N T"), advantages=array("N T"), written=array("N T"))
def policy_gradient_loss(log_probs: Tensor, advantages: Tensor, written: Tensor) -> Tensor:
    """Compute the mean of -ln p times the advantage. Its gradient is proportional to minus that of the expected reward.
    Williams 1992, eq. 5.

    Averaging over tokens instead of summing over each text divides the gradient by the mean length of the batch.
    advantages [N, 1] or [N, T]
    """
    check_alike(log_probs=log_probs, written=written)
    _check_advantages(advantages, log_probs)
    return token_mean(-log_probs * advantages, written)


def _check_advantages(advantages: Tensor, log_probs: Tensor) -> None:
    """Raise InputError unless there is an advantage for each token [N, T], or one for each text [N, 1]."""
    if advantages.shape != log_probs[:, :1].shape:
        check_alike(log_probs=log_probs, advantages=advantages)


def clipped(log_probs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Compute -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) of each token, and where the clipped term is the smaller
    one.

    ratio = p / p_old. Once it has left the interval in the direction of the advantage, the gradient is 0. Schulman et
    al. 2017, "Proximal Policy Optimization", eq. 7. [N, T] -> [N, T] float, [N, T] bool
    """
    ratio = torch.exp(log_probs - old)
    plain, held = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(plain, held), held < plain


@public(log_probs=array("N T"), old=array("N T"), advantages=array("N T"), written=array("N T"), clip=above(0))
def ppo_loss(log_probs: Tensor, old: Tensor, advantages: Tensor, written: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Compute PPO's policy loss and the fraction of clipped tokens. Schulman et al. 2017, eq. 7."""
    check_alike(log_probs=log_probs, old=old, advantages=advantages, written=written)
    each, cut = clipped(log_probs, old, advantages, clip)
    return token_mean(each, written), token_mean(cut.float(), written)


@public(values=array("N T"), old=array("N T"), targets=array("N T"), written=array("N T"), clip=above(0))
def value_loss(values: Tensor, old: Tensor, targets: Tensor, written: Tensor, clip: float) -> Tensor:
    """Compute half the mean squared error of the value, for each token the larger of the plain error and that with the
    change from the old value clipped.

    From the code published with Schulman et al. 2017, section 6.1; Huang et al. 2022, "The 37 Implementation Details of
    PPO".
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
    """Compute GRPO's loss, the clipped policy loss plus beta times the k3 estimate of KL, and the fraction of clipped
    tokens.

    Averaged over each text, then over the texts. Shao et al. 2024, "DeepSeekMath", eq. 3 and 4. advantages [N, 1] or
    [N, T]
    """
    check_alike(log_probs=log_probs, old=old, reference=reference, written=written)
    _check_advantages(advantages, log_probs)
    each, cut = clipped(log_probs, old, advantages.expand_as(log_probs), clip)
    return text_mean(each + beta * k3(log_probs - reference), written), token_mean(cut.float(), written)


@public(chosen=array("M"), rejected=array("M"), chosen_reference=array("M"), rejected_reference=array("M"))
def dpo_margins(chosen: Tensor, rejected: Tensor, chosen_reference: Tensor, rejected_reference: Tensor) -> Tensor:
    """Compute ln(p / q) of the chosen text minus that of the rejected one. Arguments are log-probabilities of complete
    texts. [M] each -> [M]
    """
    references = {"chosen_reference": chosen_reference, "rejected_reference": rejected_reference}
    check_alike(chosen=chosen, rejected=rejected, **references)
    return (chosen - chosen_reference) - (rejected - rejected_reference)


@public(margins=array("M"), beta=above(0))
def dpo_loss(margins: Tensor, beta: float) -> Tensor:
    """Compute the mean of -ln sigmoid(beta margin) over the pairs: ln 2 if the policy equals the reference. [M] -> []

    beta margin is the reward difference for which the policy would be optimal under a KL penalty of weight beta.
    Rafailov et al. 2023, "Direct Preference Optimization", eq. 7.
    """
    return -F.logsigmoid(beta * margins).mean()
