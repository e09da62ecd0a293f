"""Generation for many prompts at once: the most likely token at each step, or samples at a temperature.

All rows advance together over one cache, and their common prefix is processed once. A row with a longer prompt is
still in its prompt while the others already generate, as in model.alignment.reinforcement.rollouts, which shares the
code that samples a token.
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
class WritingSettings:
    """Settings of generation. Raises InputError if a number is out of range."""

    new_tokens: int = 32
    stop: tuple[str, ...] = ()  # a text ends before the first occurrence of any of these
    temperature: float = 0.0  # 0 selects the most likely token
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("new_tokens", self.new_tokens, 1, 1024)
        check_number("temperature", self.temperature, 0, 10)
        check_whole("seed", self.seed, 0, 2**53)


def write(
    lm: LanguageModel, prompts: Sequence[Sequence[int]], writing: WritingSettings, progress: Progress = silent
) -> list[str]:
    """Generate a text after each prompt and return the texts in the order of the prompts. `progress` counts finished
    texts.

    The random numbers of a text depend only on the seed and on its index among the prompts, not on the other texts.
    Raises InputError if a prompt is empty or leaves no room in the context.
    """
    most = lm.config.n_ctx - writing.new_tokens
    for prompt in prompts:
        if not prompt:
            raise InputError("A prompt is empty.", "", "Give each prompt at least one token.")
        if len(prompt) > most:
            hint = say("A prompt with its continuation has at most {} tokens.", lm.config.n_ctx)
            raise InputError(
                "A prompt leaves no room for a continuation.", f"{len(prompt)} + {writing.new_tokens} tokens", hint
            )
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    texts, done = [""] * len(prompts), 0
    # total number of positions that each row needs
    room = [range(len(prompts[at]) + writing.new_tokens) for at in order]
    start = 0
    for batch in batches(room, lm.config):
        chosen, start = order[start : start + len(batch)], start + len(batch)
        rows = [tuple(prompts[at]) for at in chosen]

        def report(ended: int, total: int | None, what: str, before: int = done) -> None:
            progress(before + ended, len(prompts), what)

        for at, text in zip(chosen, _write(lm, rows, writing, chosen, report), strict=True):
            texts[at] = text
        done += len(batch)
    return texts


@torch.inference_mode()
def _write(
    lm: LanguageModel,
    rows: Sequence[tuple[int, ...]],
    writing: WritingSettings,
    places: Sequence[int],
    progress: Progress,
) -> list[str]:
    """Generate the texts of one batch; `places` are the indices of its rows among all prompts."""
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


def _next(lm: LanguageModel, stream: Tensor, writing: WritingSettings, numbers: np.ndarray) -> Tensor:
    """Select the next token of each row from the stream after the last block. [N, D], random numbers [N] -> [N]"""
    log_p = next_log_probs(lm.model, stream, lm.tokenizer.vocab_size)
    if not writing.temperature:
        return log_p.argmax(-1)
    return draw((log_p / writing.temperature).log_softmax(-1), torch.from_numpy(numbers))


def _ended(lm: LanguageModel, written: list[int], writing: WritingSettings, closing: frozenset[int]) -> str | None:
    """Return the generated text if it is finished, otherwise None."""
    if written[-1] in closing:
        return lm.decode(written[:-1])
    text = lm.decode(written)
    if ends := [at for stop in writing.stop if (at := text.find(stop)) >= 0]:
        return text[: min(ends)]
    return text if len(written) >= writing.new_tokens else None
