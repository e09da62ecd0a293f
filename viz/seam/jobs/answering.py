"""The model's answer to a conversation: the assistant's turn, generated token by token with any of the strategies."""

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from model.api import LanguageModel
from model.errors import InputError
from model.gpt.edits import Edit
from model.text.chat import ending
from model.tracing.trace import check_length
from viz.seam.jobs import background
from viz.work.limits import check_time
from viz.work.playground import Playground
from viz.work.prompt import Prompt

MOST = 256  # maximum number of tokens in an answer
FRAME = 8  # approximate number of tokens that a template adds after an answer


@dataclass(frozen=True)
class Written:
    """The answer generated so far."""

    text: str
    tokens: int
    ended: str = ""  # "" during generation, then the reason for the end: "end", "length", "context"


def room(playground: Playground, model: LanguageModel, length: int) -> int:
    """Return the maximum length in tokens of an answer after `length` tokens. Raises InputError if there is no room."""
    limit = min(model.config.n_ctx, playground.options.max_tokens)
    check_length(length + FRAME + 1, limit)
    return min(MOST, playground.options.allowed.new_tokens, limit - length - FRAME)


def written(
    playground: Playground,
    model: LanguageModel,
    prompt: Prompt,
    strategy: str,
    stop: threading.Event,
    edits: Sequence[Edit] = (),
) -> Iterator[Written]:
    """Generate the answer to an open conversation and yield it token by token; it ends at the token that ends a turn.

    A partial answer in the prompt is continued, and the model writes with `edits`. The model is held for one forward
    pass at a time. Raises InputError if the conversation is not open or has no room for an answer, if the strategy is
    unknown, and for edits that cannot be applied while a text grows.
    """
    if not (prompt.answer or prompt.begun):
        raise InputError(
            "No message awaits an answer.", "", "End the conversation with an empty turn of the assistant."
        )
    prompt_ids = playground.tokens(model, prompt).ids.tolist()
    begun = prompt.begun
    begun = begun if model.decode(prompt_ids).endswith(begun) else begun.rstrip()  # a template may strip it
    most = room(playground, model, len(prompt_ids))
    ticks = cast(Generator, model.generate(prompt_ids, strategy, most, together=True, edits=edits))
    ids: list[int] = []
    spent, ended = 0.0, ""
    ends = ending(model.tokenizer)
    with contextlib.closing(ticks):
        while not ended and not stop.is_set():
            with playground.computing.later():
                began = time.perf_counter()
                tick = next(ticks, None)
                spent += time.perf_counter() - began
            check_time(playground.options.allowed, spent)
            time.sleep(background.WAIT)
            if tick is None or not (change := tick.changes[0]):
                break
            del ids[len(ids) - change.drop :]
            ids += [token.id for token in change.made]
            ended = change.ended
            own = ids[:-1] if ids and ids[-1] in ends else ids
            yield Written(begun + model.decode(own), len(ids), ended)
