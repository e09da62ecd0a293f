"""One update of the policy, from the texts of a step or from pairs: REINFORCE, PPO, GRPO, DPO."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.alignment.reinforcement.advantages import (
    gae,
    group_normalized,
    leave_one_out,
    token_rewards,
    whiten,
)
from model.alignment.reinforcement.course import CourseSettings
from model.alignment.reinforcement.learner import Learner, adapted, descend
from model.alignment.reinforcement.likelihoods import distributions, drawn, log_probs, to_rows
from model.alignment.reinforcement.losses import (
    dpo_loss,
    dpo_margins,
    grpo_loss,
    policy_gradient_loss,
    ppo_loss,
    token_mean,
    value_loss,
)
from model.alignment.reinforcement.pairs import PairRows
from model.alignment.reinforcement.texts import Batch
from model.public import without_checks

PAIRS = 16  # number of pairs per DPO update

# Without checks: values may become non-finite in training, which `descend` and the next evaluation report.
_gae, _group_normalized, _leave_one_out = map(without_checks, (gae, group_normalized, leave_one_out))
_token_rewards, _whiten = map(without_checks, (token_rewards, whiten))
_dpo_loss, _dpo_margins, _grpo_loss = map(without_checks, (dpo_loss, dpo_margins, grpo_loss))
_policy_gradient_loss, _ppo_loss, _value_loss = map(without_checks, (policy_gradient_loss, ppo_loss, value_loss))


@dataclass(frozen=True)
class Update:
    """Metrics of an update, averaged over its minibatches; NaN for fields that its method does not have."""

    loss: float = math.nan
    gradient_norm: float = math.nan  # before clipping
    clip_fraction: float = math.nan  # fraction of the tokens whose ratio was clipped
    value_error: float = math.nan  # root mean square of value minus return, before the update
    accuracy: float = math.nan  # DPO: fraction of the pairs with a positive margin
    margin: float = math.nan  # DPO: mean margin, in nats


NONE = Update()


def reinforce(learner: Learner, batch: Batch, course: CourseSettings) -> Update:
    """Take one policy-gradient step; the baseline is the mean reward of the group's other texts. Williams 1992.

    The KL penalty is part of a text's reward: r - beta ln(p / q).
    """
    written, scored = batch.rollouts.written, batch.scored
    rewards = batch.rewards - learner.coefficient * scored.log_ratios.sum(1)
    advantages = _leave_one_out(rewards, course.group)[:, None]
    loss = _policy_gradient_loss(log_probs(learner.policy, batch.rollouts, batch.size), advantages, written)
    norm = descend(learner, loss)
    return Update(float(loss.detach()), norm)


def ppo(learner: Learner, batch: Batch, course: CourseSettings) -> Update:
    """Make several passes over the texts with the clipped ratio and a value head; the KL penalty is part of the token
    rewards.

    Schulman et al. 2017; reward with KL penalty and adaptive coefficient: Ziegler et al. 2019.
    """
    scored, written = batch.scored, batch.rollouts.written
    rewards = _token_rewards(batch.rewards, scored.log_ratios, written, learner.coefficient)
    advantages = _gae(rewards, scored.values, written, course.gamma, course.lam)
    targets = torch.where(written, advantages + scored.values, 0.0)
    scaled = _whiten(advantages, written)
    losses, norms, cuts = [], [], []
    for rows in minibatches(course, learner.step, len(batch.rewards)):
        texts, mask = batch.rollouts.rows(rows), written[rows]
        log_p, states = distributions(learner.policy, texts, batch.size)
        current = to_rows(drawn(log_p, texts), mask)
        values = to_rows(learner.head(states)[:, 0], mask)
        loss, cut = _ppo_loss(current, scored.log_probs[rows], scaled[rows], mask, course.clip)
        wrong = _value_loss(values, scored.values[rows], targets[rows], mask, course.clip)
        norms.append(descend(learner, loss + course.value_weight * wrong))
        losses.append(float(loss.detach()))
        cuts.append(float(cut))
    error = float(token_mean((scored.values - targets).square(), written).sqrt())
    learner.coefficient = adapted(learner.coefficient, float(scored.kl.sum(1).mean()), course.target)
    return Update(_mean(losses), _mean(norms), _mean(cuts), error)


def grpo(learner: Learner, batch: Batch, course: CourseSettings) -> Update:
    """Make several passes over the texts with the clipped ratio, group-normalized rewards and the KL penalty in the
    loss. Shao et al. 2024.
    """
    scored, written = batch.scored, batch.rollouts.written
    advantages = _group_normalized(batch.rewards, course.group)[:, None]
    losses, norms, cuts = [], [], []
    for rows in minibatches(course, learner.step, len(batch.rewards)):
        current = log_probs(learner.policy, batch.rollouts.rows(rows), batch.size)
        old, reference = scored.log_probs[rows], scored.reference[rows]
        loss, cut = _grpo_loss(
            current, old, reference, advantages[rows], written[rows], course.clip, learner.coefficient
        )
        norms.append(descend(learner, loss))
        losses.append(float(loss.detach()))
        cuts.append(float(cut))
    return Update(_mean(losses), _mean(norms), _mean(cuts))


UPDATES: dict[str, Callable[[Learner, Batch, CourseSettings], Update]] = {
    "reinforce": reinforce,
    "ppo": ppo,
    "grpo": grpo,
}


def dpo(learner: Learner, pairs: PairRows, course: CourseSettings) -> Update:
    """Take one DPO step on PAIRS randomly drawn pairs. Loss and margins are those before the step. Rafailov et al.
    2023.
    """
    rng = np.random.default_rng([course.seed, learner.step, 2])
    rows = torch.from_numpy(rng.permutation(len(pairs))[:PAIRS])
    chosen = log_probs(learner.policy, pairs.chosen.rows(rows), pairs.size).sum(1)
    rejected = log_probs(learner.policy, pairs.rejected.rows(rows), pairs.size).sum(1)
    margins = _dpo_margins(chosen, rejected, pairs.chosen_reference[rows], pairs.rejected_reference[rows])
    loss = _dpo_loss(margins, learner.coefficient)
    norm = descend(learner, loss)
    detached = margins.detach()
    return Update(
        float(loss.detach()), norm, accuracy=float((detached > 0).float().mean()), margin=float(detached.mean())
    )


def minibatches(course: CourseSettings, step: int, texts: int) -> Iterator[Tensor]:
    """Yield the row indices of each minibatch; each pass covers all texts once, in an order that depends on (seed,
    step, pass).
    """
    for number in range(course.epochs):
        order = np.random.default_rng([course.seed, step, 3, number]).permutation(texts)
        yield from (torch.from_numpy(part) for part in np.array_split(order, course.minibatches) if len(part))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
