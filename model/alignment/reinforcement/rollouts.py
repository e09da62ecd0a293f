"""Texts sampled from a policy in one batch with a KV cache, as right-padded rows with a mask.

Axis letters of this folder: N texts, S tokens of the longest text with its prompt, T = S - 1 positions that predict a
next token, n generated tokens in total.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.errors import CheckpointError, InputError, say
from model.gpt.cache import KVCache
from model.gpt.transformer import Transformer
from model.sampling.pipeline import usable


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Texts as rows of ids. Position t predicts the token ids[:, t + 1]; `written` marks the positions whose tokens
    were generated.

    A text consists of the tokens generated after its prompt, including the end token if there is one; the rest of its
    row is padding.
    """

    ids: Tensor  # [N, S] int64: the prompt, the generated tokens, padding
    starts: Tensor  # [N] length of each prompt
    ends: Tensor  # [N] end index (exclusive) of each text
    log_probs: Tensor  # [N, T] float32, ln p of each generated token when it was drawn; 0 elsewhere

    @property
    def written(self) -> Tensor:
        """The positions that predict a generated token. bool [N, T], contiguous in each row"""
        place = torch.arange(1, self.ids.shape[1])
        return (place >= self.starts[:, None]) & (place < self.ends[:, None])

    @property
    def lengths(self) -> Tensor:
        """The number of generated tokens of each text. [N]"""
        return self.ends - self.starts

    def texts(self) -> list[list[int]]:
        """Return the tokens of each prompt with its text, without padding."""
        return [row[:end] for row, end in zip(self.ids.tolist(), self.ends.tolist(), strict=True)]

    def answers(self) -> list[list[int]]:
        """Return the generated tokens of each text."""
        spans = zip(self.ids.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)
        return [row[start:end] for row, start, end in spans]

    def rows(self, index: Tensor) -> "Rollouts":
        """Select texts by index. index [M]"""
        return Rollouts(self.ids[index], self.starts[index], self.ends[index], self.log_probs[index])


@dataclass(frozen=True, eq=False)
class RolloutSettings:
    """Limits of generation: the maximum length of a text, the tokens that end it, and the vocabulary size."""

    new_tokens: int
    ending: frozenset[int]  # tokens that end a text
    size: int  # vocabulary size
    pad: int = 0  # padding token, which is never attended to


def uniforms(seed: int, step: int, texts: int, new_tokens: int) -> np.ndarray:
    """Draw the random numbers of a step, a function of (seed, step). [N, new_tokens] float64 in [0, 1)"""
    return np.random.default_rng([seed, step]).random((texts, new_tokens))


@torch.no_grad()
def sample(
    model: Transformer, prompts: Sequence[Sequence[int]], writing: RolloutSettings, numbers: np.ndarray
) -> Rollouts:
    """Sample one text after each prompt from the model's own distribution with the given uniform numbers.

    All rows advance together, one position at a time, with a shared KV cache: a row with a longer prompt processes it
    while the others already generate. numbers [N, new_tokens]; a text depends only on its prompt and its row of
    numbers.

    Raises InputError for an empty prompt or one that leaves no room in the context, CheckpointError if a logit is NaN.
    """
    starts = _lengths(prompts, writing.new_tokens, model.config.n_ctx)
    N, S, shortest = len(prompts), max(starts) + writing.new_tokens, min(starts)
    ids = torch.full((N, S), writing.pad)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = torch.tensor(prompt)
    first = torch.tensor(starts)
    ends, log_probs = first + writing.new_tokens, torch.zeros(N, S - 1)
    closing = torch.tensor(sorted(writing.ending), dtype=torch.int64)
    draws = torch.from_numpy(numbers)
    cache, rows = KVCache.empty(model.config, N, S), torch.arange(N)
    stream = model.trunk(ids[:, :shortest], cache=cache)[:, -1:]
    for place in range(shortest, S):
        writes = (place >= first) & (place < ends)
        log_p = next_log_probs(model, stream[:, -1], writing.size)
        column = (place - first).clamp(0, writing.new_tokens - 1)
        drawn = draw(log_p, draws[rows, column])
        ids[writes, place] = drawn[writes]
        log_probs[writes, place - 1] = log_p[rows, drawn][writes]
        over = writes & torch.isin(drawn, closing)
        ends[over] = place + 1
        if place + 1 == S or bool((ends <= place + 1).all()):
            break
        stream = model.trunk(ids[:, place : place + 1], cache=cache)
    S = int(ends.max())
    return Rollouts(ids[:, :S].clone(), first, ends, log_probs[:, : S - 1].clone())


def next_log_probs(model: Transformer, stream: Tensor, size: int) -> Tensor:
    """Compute ln p of each token of the vocabulary from the stream after the last layer. [n, D] -> [n, V]

    Raises CheckpointError for non-finite logits.
    """
    log_p = usable(model.logits(stream[None])[0].float(), size).log_softmax(-1)
    if not bool(torch.isfinite(log_p[:, 0]).all()):  # one NaN or +inf makes the complete row NaN
        hint = "Its weights may be damaged, or its training diverged."
        raise CheckpointError("The model's outputs are not finite.", "", hint)
    return log_p


def draw(log_p: Tensor, numbers: Tensor) -> Tensor:
    """Draw tokens by inverse transform sampling: the first token at which the cumulative probability exceeds the
    number. [n, V], [n] in [0, 1) -> [n]
    """
    running = log_p.double().exp().cumsum(-1)
    total = running[:, -1:]
    index = torch.searchsorted(running, numbers[:, None] * total, right=True)[:, 0]
    return torch.minimum(index, (running < total).sum(-1))  # if rounding gives the total itself, the last token


def _lengths(prompts: Sequence[Sequence[int]], new_tokens: int, n_ctx: int) -> list[int]:
    """Return the prompts' lengths. Raises InputError for an empty prompt, or one that leaves no room for a
    continuation.
    """
    if not prompts or not all(prompts):
        raise InputError("A prompt is empty.", "", "Give each prompt at least one token.")
    starts = [len(prompt) for prompt in prompts]
    if max(starts) + new_tokens > n_ctx:
        hint = say("A prompt with its continuation has at most {} tokens.", n_ctx)
        raise InputError("A prompt leaves no room for a continuation.", f"{max(starts)} + {new_tokens} tokens", hint)
    return starts
