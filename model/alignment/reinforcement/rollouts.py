"""Texts sampled from a policy in one batch with a cache, as right-padded rows with a mask.

Axis letters of this folder: N texts, S tokens of the longest text with its prompt, T = S - 1 places that predict a next
token, n written tokens, over all texts.
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
    """Texts as rows of ids. Place t predicts the token ids[:, t + 1]; `written` marks those that the policy drew.

    A text is what was written after its prompt, including the token that ended it; the rest of its row is padding.
    """

    ids: Tensor  # [N, S] int64: the prompt, the generated tokens, padding
    starts: Tensor  # [N] length of each prompt
    ends: Tensor  # [N] index after the last token of each text
    log_probs: Tensor  # [N, T] float32, of each generated token at the time of its draw, in nats; 0 elsewhere

    @property
    def written(self) -> Tensor:
        """The places that predict a written token. [N, T] bool, one run of True in each row"""
        place = torch.arange(1, self.ids.shape[1])
        return (place >= self.starts[:, None]) & (place < self.ends[:, None])

    @property
    def lengths(self) -> Tensor:
        """The number of written tokens of each text. [N]"""
        return self.ends - self.starts

    def texts(self) -> list[list[int]]:
        """Return each text with its prompt, without padding."""
        return [row[:end] for row, end in zip(self.ids.tolist(), self.ends.tolist(), strict=True)]

    def answers(self) -> list[list[int]]:
        """Return the written tokens of each text."""
        spans = zip(self.ids.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)
        return [row[start:end] for row, start, end in spans]

    def rows(self, index: Tensor) -> "Rollouts":
        """Return some of the texts. index [M]"""
        return Rollouts(self.ids[index], self.starts[index], self.ends[index], self.log_probs[index])


@dataclass(frozen=True, eq=False)
class RolloutSettings:
    """The length limit of texts, and the tokens that end them."""

    new_tokens: int
    ending: frozenset[int]  # tokens that end a text
    size: int  # vocabulary size
    pad: int = 0  # the token of the padding, which is never read


def uniforms(seed: int, step: int, texts: int, new_tokens: int) -> np.ndarray:
    """Return the random numbers of a step, a function of (seed, step). [N, new_tokens] float64 in [0, 1)"""
    return np.random.default_rng([seed, step]).random((texts, new_tokens))


@torch.no_grad()
def sample(
    model: Transformer, prompts: Sequence[Sequence[int]], writing: RolloutSettings, numbers: np.ndarray
) -> Rollouts:
    """Draw one text after each prompt from the model's own distribution with the given uniform numbers.

    All rows advance together, one position at a time over one cache: a row with a longer prompt reads it while the
    others already write. numbers [N, new_tokens]; the same number gives the same token in any row.

    Raises InputError for an empty prompt or one without room behind it, CheckpointError if a logit is NaN.
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
    """Return ln p of each token of the vocabulary. The stream after the last layer [n, D] -> [n, V]

    Raises CheckpointError for logits that are not finite.
    """
    log_p = usable(model.logits(stream[None])[0].float(), size).log_softmax(-1)
    if not bool(torch.isfinite(log_p[:, 0]).all()):  # one NaN or infinity turns the complete row into NaN
        hint = "Its weights may be damaged, or its training diverged."
        raise CheckpointError("The model's outputs are not finite.", "", hint)
    return log_p


def draw(log_p: Tensor, numbers: Tensor) -> Tensor:
    """Return the token at which the cumulative probability passes the number. [n, V], [n] in [0, 1) -> [n]"""
    running = log_p.double().exp().cumsum(-1)
    total = running[:, -1:]
    index = torch.searchsorted(running, numbers[:, None] * total, right=True)[:, 0]
    return torch.minimum(index, (running < total).sum(-1))  # a product rounded up to the sum selects the last token


def _lengths(prompts: Sequence[Sequence[int]], new_tokens: int, n_ctx: int) -> list[int]:
    """Check the prompts and return their lengths."""
    if not prompts or not all(prompts):
        raise InputError("A prompt is empty.", "", "Give each prompt at least one token.")
    starts = [len(prompt) for prompt in prompts]
    if max(starts) + new_tokens > n_ctx:
        hint = say("A prompt with its continuation has at most {} tokens.", n_ctx)
        raise InputError("A prompt leaves no room for a continuation.", f"{max(starts)} + {new_tokens} tokens", hint)
    return starts
