"""The model answers a conversation: the assistant's turn as it is written, by any strategy of the list."""

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import gradio as gr

from model.api import LanguageModel
from model.errors import InputError
from model.generation.strategies import STRATEGIES
from model.gpt.trace import check_length
from model.text.chat import ending
from viz.page.parts import update
from viz.page.streams import Shared, answers
from viz.seam.jobs import background
from viz.seam.jobs.background import LOOK_EVERY, waiting
from viz.seam.playground import Playground
from viz.seam.prompt import Prompt, prompt_of
from viz.seam.view import Event, Payload, Visit
from viz.server.limits import check_time

MOST = 256  # tokens of an answer
FRAME = 8  # tokens that a template puts behind an answer, about
_EVERY = 0.25  # seconds between two pieces
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


@dataclass(frozen=True)
class Written:
    """The answer up to now."""

    text: str
    tokens: int
    ended: str = ""  # "" while it goes on, then why it ended: "end", "length", "context"


@dataclass(eq=False)
class Stops:
    """What ends the answer that is written for a visitor."""

    events: dict[str, threading.Event] = field(default_factory=dict)

    def begin(self, owner: str) -> threading.Event:
        """A new one; the visitor's last answer is stopped."""
        self.stop(owner)
        self.events[owner] = threading.Event()
        return self.events[owner]

    def stop(self, owner: str) -> None:
        """Stop after the present step."""
        event = self.events.pop(owner, None)
        if event:
            event.set()


def room(playground: Playground, model: LanguageModel, length: int) -> int:
    """How many tokens an answer to `length` tokens may have; raises InputError where there is no room."""
    limit = min(model.config.n_ctx, playground.options.max_tokens)
    check_length(length + FRAME + 1, limit)
    return min(MOST, playground.options.allowed.new_tokens, limit - length - FRAME)


def written(
    playground: Playground, model: LanguageModel, prompt: Prompt, strategy: str, stop: threading.Event
) -> Iterator[Written]:
    """The answer to a conversation that is open, step by step; it ends at the token that ends a turn.

    The model is held for one forward at a time. Raises InputError for a conversation that is not open, without room for
    an answer, or for an unknown strategy.
    """
    if not prompt.answer:
        raise InputError("There is nothing to answer.", "", "End the conversation with an empty turn of the assistant.")
    prompt_ids = playground.tokens(model, prompt).ids
    most = room(playground, model, len(prompt_ids))
    ticks = cast(Generator, model.generate(prompt_ids, strategy, most))
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
            ids += [made.id for made in change.made]
            ended = change.ended
            own = ids[:-1] if ids and ids[-1] in ends else ids
            yield Written(model.decode(own), len(ids), ended)


def start(visit: Visit, sent: object) -> Iterator[Payload]:
    """Write the answer to the visitor's conversation and tell the page as it goes on."""
    tag, key = (sent.get(name) if isinstance(sent, Mapping) else None for name in ("tag", "strategy"))
    named = {"tag": tag[:40]} if isinstance(tag, str) else {}
    strategy = key if isinstance(key, str) and key in STRATEGIES else next(iter(STRATEGIES))
    model, stop = visit.playground.opened(visit.model_id), visit.state.begin(visit.session)
    ticket, last, shown = visit.playground.desk.join(visit.session), Written("", 0), float("-inf")
    try:
        while (ahead := ticket.wait(LOOK_EVERY)) and not stop.is_set():
            yield {**named, "state": "waiting", "ahead": waiting(ahead, visit.language)}
        for last in written(visit.playground, model, visit.prompt, strategy, stop):
            if time.perf_counter() - shown >= _EVERY:
                shown = time.perf_counter()
                yield {**named, "state": "running", "text": last.text}
        yield {**named, "state": "done", "text": last.text, "ended": last.ended or "stopped", "tokens": last.tokens}
    finally:
        stop.set()
        ticket.leave()


def halt(visit: Visit, sent: object) -> None:
    """Stop the visitor's answer."""
    visit.state.stop(visit.session)


def wire(shared: Shared, channel: gr.HTML) -> None:
    """The events of the channel, and what ends an answer for whoever leaves."""
    stops = Stops()

    def visit_of(request: gr.Request, loaded: dict, prompt: str, chat: object) -> Visit:
        visitor, language = request.session_hash or "", shared.language_of(request)
        return Visit(shared.playground, visitor, language, loaded["id"], prompt_of(prompt, chat), {}, stops)

    def begin(request: gr.Request, sent, loaded, prompt, chat):
        with contextlib.closing(answers(Event(start), visit_of(request, loaded, prompt, chat), sent)) as steps:
            for each in steps:
                yield update(cast(Payload, each))

    def end(request: gr.Request, sent, loaded, prompt, chat):
        halt(visit_of(request, loaded, prompt, chat), sent)

    inputs = [channel, shared.loaded, shared.prompt, shared.chat]
    channel.start(begin, inputs, [channel], concurrency_limit=None, trigger_mode="multiple", **_QUIET)
    channel.stop(end, inputs, None, concurrency_limit=None, trigger_mode="multiple", **_QUIET)
    shared.leaving.append(stops.stop)
