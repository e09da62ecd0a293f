"""Comparison of a policy with its reference on one text: which tokens became more likely, how much each head changed,
and sample texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.alignment.four_prompts import FourAnswers, Story, answer_four
from model.alignment.reinforcement.course import CourseSettings
from model.alignment.reinforcement.likelihoods import exact_kl, log_probs
from model.alignment.reinforcement.rollouts import sample, uniforms
from model.alignment.reinforcement.texts import RewardedText, Task, decoded, rewards_of
from model.gpt.transformer import Transformer
from model.sampling.pipeline import usable
from model.tracing.patterns import patterns_and_logits

TOP = 12  # number of most likely tokens at each position
WATCHED = 4  # number of texts generated at each evaluation with the same random numbers
PROBE_TOKENS = 32  # maximum tokens of the probe
_PROBE, _WATCH = 1 << 21, (1 << 21) + 1  # step indices for the seeds, beyond the steps of any run


@dataclass(frozen=True, eq=False)
class Look:
    """Comparison of policy and reference on the probe, a text of T tokens, after `step` updates. Axes L: layers, H:
    heads.
    """

    step: int
    ids: tuple[int, ...]  # the probe's tokens
    before: np.ndarray  # ln q of each token but the first under the reference; float32 [T - 1]
    after: np.ndarray  # the same under the policy, ln p; float32 [T - 1]
    kl: np.ndarray  # exact KL(policy || reference) of the next-token distribution at each position, nats [T]
    top: np.ndarray  # tokens with the largest max(p, q) after each position; int64 [T, TOP]
    top_before: np.ndarray  # ln q of these tokens [T, TOP]
    top_after: np.ndarray  # ln p of these tokens [T, TOP]
    heads: np.ndarray  # total variation distance of each head's attention rows, averaged, 0 to 1 [L, H]
    samples: tuple[RewardedText, ...]  # WATCHED texts, with the same random numbers at each evaluation
    four: FourAnswers  # answers to the four prompts of every stage

    @property
    def log_ratios(self) -> np.ndarray:
        """The log-ratio ln p - ln q of each token but the first. [T - 1]"""
        return self.after - self.before


def probe_of(reference: Transformer, task: Task, course: CourseSettings, prompt: Sequence[int]) -> tuple[int, ...]:
    """Return a prompt with a continuation by the reference, from 2 to PROBE_TOKENS tokens in total."""
    room = max(1, min(PROBE_TOKENS, reference.config.n_ctx) - len(prompt))
    prompt = prompt[: PROBE_TOKENS - 1]
    rollouts = sample(reference, [prompt], task.writing(room), uniforms(course.seed, _PROBE, 1, room))
    return tuple(rollouts.texts()[0])


@torch.no_grad()
def look(
    policy: Transformer,
    reference: Transformer,
    task: Task,
    course: CourseSettings,
    probe: Sequence[int],
    step: int,
    story: Story,
) -> Look:
    """Run both models on the probe and generate WATCHED texts and the answers to the four prompts with the policy."""
    ids = torch.tensor(probe)
    theirs, log_q = _read(reference, ids, task.size)
    ours, log_p = _read(policy, ids, task.size)
    top = torch.maximum(log_p, log_q).topk(min(TOP, task.size), -1).indices
    following = ids[1:, None]
    return Look(
        step,
        tuple(probe),
        log_q[:-1].gather(-1, following)[:, 0].numpy(),
        log_p[:-1].gather(-1, following)[:, 0].numpy(),
        exact_kl(log_p, log_q).numpy(),
        top.numpy(),
        log_q.gather(-1, top).numpy(),
        log_p.gather(-1, top).numpy(),
        (0.5 * (ours - theirs).abs().sum(-1).mean(-1)).numpy(),
        watched(policy, reference, task, course),
        answer_four(policy, reference, task.tokenizer, story),
    )


def _read(model: Transformer, ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Compute all attention weights [L, H, T, T], and ln p of the next token at each position [T, V]."""
    patterns, logits = patterns_and_logits(model, ids)
    return patterns, usable(logits, size).log_softmax(-1)


def watched(
    policy: Transformer, reference: Transformer, task: Task, course: CourseSettings
) -> tuple[RewardedText, ...]:
    """Generate texts for the first prompts, with random numbers that depend only on the seed."""
    prompts = [task.prompts[row % len(task.prompts)] for row in range(WATCHED)]
    numbers = uniforms(course.seed, _WATCH, WATCHED, course.new_tokens)
    rollouts = sample(policy, prompts, task.writing(course.new_tokens), numbers)
    with torch.no_grad():
        ratios = rollouts.log_probs.sum(1) - log_probs(reference, rollouts, task.size).sum(1)
    rows = zip(prompts, decoded(task, rollouts), rewards_of(task, rollouts).tolist(), ratios.tolist(), strict=True)
    return tuple(
        RewardedText(task.tokenizer.decode(prompt), text, reward, ratio) for prompt, text, reward, ratio in rows
    )
