"""The training loop of reinforcement learning: in each step the policy generates texts, a reward scores them, and an
update follows.

All randomness is a function of (seed, step). The methods are in updates.py.
"""

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from model.alignment.reinforcement.best_of_n import expected_best, kl_bound
from model.alignment.reinforcement.course import CourseSettings
from model.alignment.reinforcement.learner import Learner
from model.alignment.reinforcement.likelihoods import score
from model.alignment.reinforcement.pairs import PairRows
from model.alignment.reinforcement.texts import Batch, RewardedText, StepMeans, Task, astray, measure, samples, write
from model.alignment.reinforcement.updates import NONE, UPDATES, Update, dpo
from model.errors import Astray, CheckpointError
from model.gpt.transformer import Transformer


@dataclass(frozen=True)
class Report:
    """Metrics of the texts that the policy generated after `step` updates, and of the update that followed.

    Report 0 describes the reference itself; the last report has no update.
    """

    step: int
    measured: StepMeans
    update: Update
    coefficient: float  # beta at this step
    samples: tuple[RewardedText, ...]
    seconds: float  # duration of this step


def steps(learner: Learner, task: Task, course: CourseSettings, pairs: PairRows | None = None) -> Iterator[Report]:
    """Train from the learner's current step to the end of the course, yielding a report per step. `pairs` are those for
    DPO. To cancel, stop iterating.

    Raises Astray if the training diverges.
    """
    while learner.step <= course.steps:
        began = time.perf_counter()
        batch = _written(learner, task, course)
        measured, shown, step, beta = measure(batch), samples(task, batch), learner.step, learner.coefficient
        if astray(measured, task.size):
            raise _lost(learner)
        learner.remember()
        update = NONE
        if step < course.steps:
            update = _updated(learner, batch, course, pairs)
        learner.step += 1
        yield Report(step, measured, update, beta, shown, time.perf_counter() - began)


def _written(learner: Learner, task: Task, course: CourseSettings) -> Batch:
    try:
        rollouts, rewards = write(learner.policy, task, course, learner.step)
    except CheckpointError as error:
        raise _lost(learner) from error
    head = learner.head if course.method == "ppo" else None
    return Batch(rollouts, rewards, score(learner.policy, learner.reference, rollouts, task.size, head), task.size)


def _updated(learner: Learner, batch: Batch, course: CourseSettings, pairs: PairRows | None) -> Update:
    try:
        if pairs is not None:
            return dpo(learner, pairs, course)
        return UPDATES[course.method](learner, batch, course)
    except FloatingPointError as error:
        raise _lost(learner) from error


def _lost(learner: Learner) -> Astray:
    at = learner.step
    learner.restore()
    hint = "The last finite model is kept. Lower the learning rate, or raise the KL penalty."
    return Astray("The training diverged.", f"step {at}", hint)


def choose_best(reference: Transformer, task: Task, course: CourseSettings) -> Iterator[Report]:
    """Yield reports on the best of n = 1, 2, 4, ... texts of each prompt, without training. Report k is for n = 2^k.

    The reward is the mean over all n-subsets of each group, and the KL is the bound ln n - (n - 1) / n per text. The
    other metrics describe the best text of each n consecutive texts.
    """
    rollouts, rewards = write(reference, task, course, 0)
    scored = score(reference, reference, rollouts, task.size)
    groups = rewards.view(-1, course.group).double().numpy()
    for step in range(course.steps + 1):
        began, n = time.perf_counter(), 2**step
        if course.group % n:
            return
        rows = torch.arange(0, len(rewards), n) + rewards.view(-1, n).argmax(1)
        chosen = Batch(rollouts.rows(rows), rewards[rows], scored.rows(rows), task.size)
        measured, bound = measure(chosen), kl_bound(n)
        # The log-probabilities of the drawn tokens do not reflect the selection.
        estimates = {"k1": math.nan, "k3": math.nan}
        measured = dataclasses.replace(
            measured, reward=expected_best(groups, n), kl_text=bound, kl=bound / measured.length, **estimates
        )
        yield Report(step, measured, NONE, 0.0, samples(task, chosen), time.perf_counter() - began)
