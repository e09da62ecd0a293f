"""The texts of a step: written by the policy, scored by the reward, measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.alignment.reinforcement.course import CourseSettings
from model.alignment.reinforcement.likelihoods import Scored, k1, k3, perplexity
from model.alignment.reinforcement.rollouts import Rollouts, RolloutSettings, sample, uniforms
from model.errors import InputError
from model.generation.text_statistics import distinct
from model.gpt.transformer import Transformer
from model.text.chat import ending
from model.text.tokenizer import Tokenizer

SHOWN = 3  # texts of a report


@dataclass(frozen=True, eq=False)
class Answers:
    """The input of a reward."""

    ids: list[list[int]]  # ids of each prompt and its continuation, without the end token
    texts: list[str]  # the continuation, without the end token


Reward = Callable[[Answers], np.ndarray]  # -> [N], one finite number per text


@dataclass(frozen=True, eq=False)
class Task:
    """The prompts to continue, and the reward."""

    prompts: tuple[tuple[int, ...], ...]
    reward: Reward
    tokenizer: Tokenizer

    def writing(self, new_tokens: int) -> RolloutSettings:
        """Return how the texts end, for a number of new tokens."""
        closing = ending(self.tokenizer)
        return RolloutSettings(new_tokens, closing, self.tokenizer.vocab_size, min(closing, default=0))

    @property
    def size(self) -> int:
        """The number of tokens of the vocabulary."""
        return self.tokenizer.vocab_size


@dataclass(frozen=True)
class RewardedText:
    """One text with its reward."""

    prompt: str
    text: str
    reward: float
    log_ratio: float  # ln(p / q) of the complete text, p under the policy and q under the reference


@dataclass(frozen=True, eq=False)
class Batch:
    """The texts of a step with their rewards and their numbers under both models."""

    rollouts: Rollouts
    rewards: Tensor  # float32 [N]
    scored: Scored
    size: int  # of the vocabulary


@dataclass(frozen=True)
class StepMeans:
    """Means over the texts of a step."""

    reward: float
    reward_sd: float
    kl: float  # exact, nats a token
    kl_text: float  # the same summed over each text, nats per text
    k1: float  # the two estimates from the drawn tokens, nats per token
    k3: float
    entropy: float  # nats a token
    perplexity: float  # of the texts under the reference
    length: float  # tokens
    distinct_1: float  # over all texts of the step together
    distinct_2: float


def task(tokenizer: Tokenizer, prompts: Sequence[str], reward: Reward) -> Task:
    """Return a task from texts. Raises InputError for a prompt without a token, and for an empty list."""
    ids = tuple(tuple(tokenizer.prompt_ids(prompt)) for prompt in prompts)
    if not ids or not all(ids):
        raise InputError("A prompt is empty.", "", "Give each prompt at least one token.")
    return Task(ids, reward, tokenizer)


def chosen_prompts(task: Task, course: CourseSettings, step: int) -> list[tuple[int, ...]]:
    """Return the prompts of a step, each `course.group` times, in turn from a shuffled list. [N]"""
    order = np.random.default_rng([course.seed, step, 1]).permutation(len(task.prompts))
    groups = course.texts // course.group
    return [task.prompts[order[at % len(order)]] for at in range(groups) for _ in range(course.group)]


def write(model: Transformer, task: Task, course: CourseSettings, step: int) -> tuple[Rollouts, Tensor]:
    """Write the texts of a step and return them with their rewards [N], a function of the model, the seed
    and the step.
    """
    numbers = uniforms(course.seed, step, course.texts, course.new_tokens)
    rollouts = sample(model, chosen_prompts(task, course, step), task.writing(course.new_tokens), numbers)
    return rollouts, rewards_of(task, rollouts)


def rewards_of(task: Task, rollouts: Rollouts) -> Tensor:
    """Return the reward of each text, float32 [N]. Raises InputError unless all are finite.

    The token that ended a text is left out, because reward models are trained on texts without it.
    """
    closing = ending(task.tokenizer)
    ids = [text[:-1] if text[-1] in closing else text for text in rollouts.texts()]
    rewards = np.asarray(task.reward(Answers(ids, decoded(task, rollouts))), np.float32)
    if rewards.shape != (len(rollouts.ids),) or not np.isfinite(rewards).all():
        raise InputError("A reward is not a finite number.", "", "Change the reward.")
    return torch.from_numpy(rewards)


def decoded(task: Task, rollouts: Rollouts) -> list[str]:
    """Return the written texts, without special tokens."""
    special = set(task.tokenizer.special.values())
    return [task.tokenizer.decode([id for id in ids if id not in special]) for ids in rollouts.answers()]


def measure(batch: Batch) -> StepMeans:
    """Return the means over a step's texts."""
    rollouts, scored = batch.rollouts, batch.scored
    written, count = rollouts.written, max(int(rollouts.lengths.sum()), 1)
    answers = rollouts.answers()

    def mean(values: Tensor) -> float:
        return float(values[written].double().sum()) / count

    return StepMeans(
        reward=float(batch.rewards.double().mean()),
        reward_sd=float(batch.rewards.double().std(correction=0)),
        kl=mean(scored.kl),
        kl_text=float(scored.kl.double().sum(1).mean()),
        k1=mean(k1(scored.log_ratios)),
        k3=mean(k3(scored.log_ratios)),
        entropy=mean(scored.entropy),
        perplexity=perplexity(scored.reference, written),
        length=float(rollouts.lengths.double().mean()),
        distinct_1=distinct(answers, 1),
        distinct_2=distinct(answers, 2),
    )


def samples(task: Task, batch: Batch) -> tuple[RewardedText, ...]:
    """Return the texts with the highest, the middle and the lowest reward."""
    order = torch.argsort(batch.rewards, descending=True, stable=True).tolist()
    chosen = sorted({order[0], order[len(order) // 2], order[-1]}, key=order.index)[:SHOWN]
    texts, rewards = decoded(task, batch.rollouts), batch.rewards.tolist()
    ratios = batch.scored.log_ratios.double().sum(1).tolist()
    ids, starts = batch.rollouts.ids.tolist(), batch.rollouts.starts.tolist()
    return tuple(
        RewardedText(task.tokenizer.decode(ids[row][: starts[row]]), texts[row], rewards[row], ratios[row])
        for row in chosen
    )


def astray(measured: StepMeans, size: int) -> bool:
    """Return whether the policy has diverged: numbers that are not finite, or more than ln V nats per token from the
    reference.

    ln V is the cost of a token drawn uniformly from V tokens.
    """
    return not math.isfinite(measured.kl + measured.entropy) or measured.kl > math.log(size)
