"""Pairs of texts for DPO: from preferences of a person or rule, or the reference's texts ordered by a reward."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.alignment.reinforcement.course import CourseSettings
from model.alignment.reinforcement.likelihoods import CHUNK, log_probs
from model.alignment.reinforcement.rollouts import Rollouts, sample, uniforms
from model.alignment.reinforcement.texts import Task, chosen_prompts, rewards_of
from model.errors import InputError
from model.gpt.transformer import Transformer

MADE = 1 << 20  # step index of the random numbers for pairs, beyond the steps of any run


@dataclass(frozen=True, eq=False)
class PairRows:
    """M pairs as rows, chosen and rejected, and ln q of each text under the reference."""

    chosen: Rollouts
    rejected: Rollouts
    chosen_reference: Tensor  # [M]
    rejected_reference: Tensor  # [M]
    size: int  # of the vocabulary

    def __len__(self) -> int:
        return len(self.chosen.ids)


def rows_of(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad: int = 0) -> Rollouts:
    """Return given texts as rollouts with log_probs 0. Answers have at least one token."""
    starts, ends = ([len(p) for p in prompts], [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)])
    ids = torch.full((len(prompts), max(ends)), pad)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[row, : ends[row]] = torch.tensor([*prompt, *answer])
    return Rollouts(ids, torch.tensor(starts), torch.tensor(ends), torch.zeros(len(prompts), max(ends) - 1))


@torch.no_grad()
def summed(model: Transformer, rollouts: Rollouts, size: int) -> Tensor:
    """Return ln p of each complete text, without gradients. [N]"""
    index = torch.arange(len(rollouts.ids)).split(CHUNK)
    return torch.cat([log_probs(model, rollouts.rows(rows), size).sum(1) for rows in index])


def with_reference(reference: Transformer, chosen: Rollouts, rejected: Rollouts) -> PairRows:
    """Return the pairs with the reference's log-probabilities, which stay constant during the run.

    Probabilities are over all rows of the model, as in trl: including those without a token.
    """
    size = reference.config.vocab_size
    return PairRows(chosen, rejected, summed(reference, chosen, size), summed(reference, rejected, size), size)


def from_texts(
    reference: Transformer, task: Task, pairs: Sequence[tuple[str, str, str]], longest: int | None = None
) -> PairRows:
    """Return pairs of texts (prompt, chosen, rejected) as rows; what exceeds the context length, or `longest`, is cut.

    Prompts begin as the vocabulary requires, and answers end with `Tokenizer.end_id`, so that stopping is learned too,
    as in trl (DPOTrainer); an answer that was cut has no end.

    Raises InputError for an empty list, prompt or answer, and for a prompt that fills the context.
    """
    if not pairs:
        raise InputError("Pairs are missing.", "", "Create some pairs first, or choose a reward.")
    room, end = reference.config.n_ctx, [] if task.tokenizer.end_id is None else [task.tokenizer.end_id]
    prompts: list[list[int]] = []
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for prompt, *answers in pairs:
        ids = task.tokenizer.prompt_ids(prompt)
        if not ids or len(ids) >= room:
            raise InputError(
                "The prompt of a pair does not fit.",
                prompt[:40],
                "It needs at least one token and must fit into the context.",
            )
        prompts.append(ids)
        for side, answer in zip(sides, answers, strict=True):
            tokens = task.tokenizer.encode_ids(answer)
            if not tokens:
                raise InputError("A text of a pair is empty.", prompt[:40], "Remove this pair.")
            side.append([*tokens, *end][: min(longest or room, room - len(ids))])
    chosen, rejected = (rows_of(prompts, side) for side in sides)
    return with_reference(reference, chosen, rejected)


def by_reward(reference: Transformer, task: Task, course: CourseSettings) -> PairRows:
    """Return the best and the worst text of each group that the reference writes, if their rewards differ.

    Raises InputError if no group has two different rewards.
    """
    group, rounds = course.group, -(-course.pairs * course.group // course.texts)
    starts, chosen, rejected = [], [], []
    for number in range(rounds):
        prompts = chosen_prompts(task, course, MADE + number)
        numbers = uniforms(course.seed, MADE + number, len(prompts), course.new_tokens)
        rollouts = sample(reference, prompts, task.writing(course.new_tokens), numbers)
        rewards, texts = rewards_of(task, rollouts).view(-1, group), rollouts.answers()
        best, worst = rewards.argmax(1).tolist(), rewards.argmin(1).tolist()
        for at, (first, last) in enumerate(zip(best, worst, strict=True)):
            if rewards[at, first] > rewards[at, last]:
                starts.append(prompts[at * group])
                chosen.append(texts[at * group + first])
                rejected.append(texts[at * group + last])
    if not chosen:
        raise InputError("All texts have the same reward.", "", "Choose another reward, or longer texts.")
    high, low = (rows_of(starts[: course.pairs], side[: course.pairs]) for side in (chosen, rejected))
    return with_reference(reference, high, low)
