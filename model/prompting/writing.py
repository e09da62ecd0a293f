"""Texts after many prompts at once: the likeliest token each time, or samples at a temperature.

All rows advance together over one cache, whose common beginning is read once; a row whose prompt is longer reads it
while the others already write, as in model.alignment.reinforcement.rollouts, which shares the drawing of a token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.alignment.reinforcement.rollouts import draw, next_log_probs
from model.api import LanguageModel
from model.arguments import check_number, check_whole
from model.errors import InputError, say
from model.progress import Progress, silent
from model.prompting.choices import batches, common_prefix, prefilled, spread
from model.text.chat import ending


@dataclass(frozen=True)
class Writing:
    """How a text is written. Raises InputError for a number out of range."""

    new_tokens: int = 32
    stop: tuple[str, ...] = ()  # a text ends with the first of these that is complete; it is not part of the text
    temperature: float = 0.0  # 0: the likeliest token
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("new_tokens", self.new_tokens, 1, 1024)
        check_number("temperature", self.temperature, 0, 10)
        check_whole("seed", self.seed, 0, 2**53)


def write(
    lm: LanguageModel, prompts: Sequence[Sequence[int]], writing: Writing, progress: Progress = silent
) -> list[str]:
    """Return the text after each prompt, in their order. `progress` counts texts that are complete.

    A text's random numbers follow from the seed and its place among the prompts, whatever stands beside it. Raises
    InputError for an empty prompt and one that leaves no room.
    """
    most = lm.config.n_ctx - writing.new_tokens
    for prompt in prompts:
        if not prompt:
            raise InputError("A prompt is empty.", "", "Give each prompt at least one token.")
        if len(prompt) > most:
            hint = say("A prompt and what is written after it take at most {} tokens.", lm.config.n_ctx)
            raise InputError("A prompt leaves no room to write.", f"{len(prompt)} + {writing.new_tokens} tokens", hint)
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    texts, done = [""] * len(prompts), 0
    room = [range(len(prompts[at]) + writing.new_tokens) for at in order]  # what a row takes in all
    start = 0
    for batch in batches(room, lm.config):
        chosen, start = order[start : start + len(batch)], start + len(batch)
        rows = [tuple(prompts[at]) for at in chosen]

        def told(ended: int, total: int | None, what: str, before: int = done) -> None:
            progress(before + ended, len(prompts), what)

        for at, text in zip(chosen, _write(lm, rows, writing, chosen, told), strict=True):
            texts[at] = text
        done += len(batch)
    return texts


@torch.inference_mode()
def _write(
    lm: LanguageModel,
    rows: Sequence[tuple[int, ...]],
    writing: Writing,
    places: Sequence[int],
    progress: Progress,
) -> list[str]:
    """Return one batch; `places`: which of all prompts these are."""
    model, N = lm.model, len(rows)
    shared = common_prefix(rows)
    starts = [len(row) for row in rows]
    S = max(starts) + writing.new_tokens
    numbers = np.stack([np.random.default_rng([writing.seed, at]).random(writing.new_tokens) for at in places])
    cache = spread(model, prefilled(model, rows[0][:shared]), N, S)
    shortest = min(starts)
    ids = torch.tensor([list(row[shared:shortest]) for row in rows])
    stream = model.trunk(ids, cache=cache)[:, -1]  # [N, D]
    closing, written = ending(lm.tokenizer), [[] for _ in rows]  # type: list[list[int]]
    texts: list[str | None] = [None] * N
    for place in range(shortest, S):
        writes = [place >= starts[row] and texts[row] is None for row in range(N)]
        new = torch.tensor([row[place] if place < len(row) else row[-1] for row in rows])
        if any(writes):
            column = [min(max(place - start, 0), writing.new_tokens - 1) for start in starts]
            drawn = _next(lm, stream, writing, numbers[range(N), column])
            new = torch.where(torch.tensor(writes), drawn, new)
        for row in (row for row in range(N) if writes[row]):
            written[row].append(int(new[row]))
            texts[row] = _ended(lm, written[row], writing, closing)
        progress(sum(text is not None for text in texts), N, "")
        if all(text is not None for text in texts):
            break
        stream = model.trunk(new[:, None], cache=cache)[:, -1]
    return [text or "" for text in texts]


def _next(lm: LanguageModel, stream: Tensor, writing: Writing, numbers: np.ndarray) -> Tensor:
    """Return the next token of each row. The stream after the last block [N, D], random numbers [N] -> [N]"""
    log_p = next_log_probs(lm.model, stream, lm.tokenizer.vocab_size)
    if not writing.temperature:
        return log_p.argmax(-1)
    return draw((log_p / writing.temperature).log_softmax(-1), torch.from_numpy(numbers))


def _ended(lm: LanguageModel, written: list[int], writing: Writing, closing: frozenset[int]) -> str | None:
    """Return the text that was written, where it has ended; None where it goes on."""
    if written[-1] in closing:
        return lm.decode(written[:-1])
    text = lm.decode(written)
    if found := [at for stop in writing.stop if (at := text.find(stop)) >= 0]:
        return text[: min(found)]
    return text if len(written) >= writing.new_tokens else None
