"""Pairs of texts for DPO: from preferences of a person or of rules, or from the reference's texts,
ranked by a reward.
"""

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

MADE = 1 << 20  # step index for the seeds of pairs, beyond the steps of any run


@dataclass(frozen=True, eq=False)
class PairRows:
    """M tokenized pairs, as chosen and rejected rows, and ln q of each text under the reference."""

    chosen: Rollouts
    rejected: Rollouts
    chosen_reference: Tensor  # [M]
    rejected_reference: Tensor  # [M]
    size: int  # number of rows of the unembedding

    def __len__(self) -> int:
        return len(self.chosen.ids)


def rows_of(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad: int = 0) -> Rollouts:
    """Build rollouts with log_probs 0 from the given prompts and answers. Each answer must have at least one token."""
    starts, ends = ([len(p) for p in prompts], [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)])
    ids = torch.full((len(prompts), max(ends)), pad)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[row, : ends[row]] = torch.tensor([*prompt, *answer])
    return Rollouts(ids, torch.tensor(starts), torch.tensor(ends), torch.zeros(len(prompts), max(ends) - 1))


@torch.no_grad()
def summed(model: Transformer, rollouts: Rollouts, size: int) -> Tensor:
    """Compute ln p of each complete text, without gradients. [N]"""
    index = torch.arange(len(rollouts.ids)).split(CHUNK)
    return torch.cat([log_probs(model, rollouts.rows(rows), size).sum(1) for rows in index])


def with_reference(reference: Transformer, chosen: Rollouts, rejected: Rollouts) -> PairRows:
    """Compute the reference's log-probabilities of the pairs, which stay constant during the run, and return both.

    Probabilities are over all rows of the unembedding, as in trl, including rows that correspond to no token.
    """
    size = reference.config.vocab_size
    return PairRows(chosen, rejected, summed(reference, chosen, size), summed(reference, rejected, size), size)


def from_texts(
    reference: Transformer, task: Task, pairs: Sequence[tuple[str, str, str]], longest: int | None = None
) -> PairRows:
    """Tokenize pairs (prompt, chosen, rejected) to rows, with answers truncated to the context length and to `longest`.

    Prompts begin as the vocabulary requires, and answers end with `Tokenizer.end_id`, so that stopping is also learned,
    as in trl (DPOTrainer); a truncated answer has no end token.

    Raises InputError for no pairs, an empty prompt or answer, and a prompt that fills the context.
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
    """Generate groups of texts with the reference, and pair the best with the worst text of each group if their rewards
    differ.

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
