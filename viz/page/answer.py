"""The model's answer to a conversation: the assistant's turn, streamed as the selected strategy generates it."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from model.api import LanguageModel
from model.generation.strategies import STRATEGIES
from model.gpt.edits import Edit
from viz.seam.jobs.answering import Written
from viz.seam.jobs.background import LOOK_EVERY, waiting
from viz.seam.selection import picked
from viz.seam.view import Event, Payload, Stream, Visit
from viz.views.sampling.writers import answered

_EVERY = 0.25  # seconds between two updates


@dataclass(eq=False)
class Stops:
    """The events that stop each visitor's answer."""

    events: dict[str, threading.Event] = field(default_factory=dict)

    def begin(self, owner: str) -> threading.Event:
        """Create an event for a visitor's new answer, and stop the visitor's previous answer."""
        self.stop(owner)
        self.events[owner] = threading.Event()
        return self.events[owner]

    def stop(self, owner: str) -> None:
        """Stop a visitor's answer after the current step."""
        event = self.events.pop(owner, None)
        if event:
            event.set()


def start(visit: Visit, sent: object) -> Iterator[Payload]:
    """Generate the answer to the visitor's conversation, with the page's edits, and yield it as it grows."""
    tag, key = (sent.get(name) if isinstance(sent, Mapping) else None for name in ("tag", "strategy"))
    named = {"tag": tag[:40]} if isinstance(tag, str) else {}
    strategy = key if isinstance(key, str) and key in STRATEGIES else next(iter(STRATEGIES))
    model, stop = visit.playground.opened(visit.model_id), visit.state.begin(visit.session)
    ticket, last, shown = visit.playground.queue.join(visit.session, "text"), Written("", 0), float("-inf")
    try:
        while (ahead := ticket.wait(LOOK_EVERY)) and not stop.is_set():
            yield {**named, "state": "waiting", "ahead": waiting(ahead, visit.language)}
        for last in answered(visit.playground, model, visit.prompt, strategy, stop, _edits(visit, model, sent)):
            if time.perf_counter() - shown >= _EVERY:
                shown = time.perf_counter()
                yield {**named, "state": "running", "text": last.text}
        yield {**named, "state": "done", "text": last.text, "ended": last.ended or "stopped", "tokens": last.tokens}
    finally:
        stop.set()
        ticket.leave()


def _edits(visit: Visit, model: LanguageModel, sent: object) -> tuple[Edit, ...]:
    """Return the edits that the page sent, without those that do not fit the model or the conversation."""
    given = sent.get("edits") if isinstance(sent, Mapping) else None
    if not given:
        return ()
    T = len(visit.playground.tokens(model, visit.prompt).ids)
    return picked({"edits": given}, model.config, T, None, model.tokenizer.vocab_size).edits


def halt(visit: Visit, sent: object) -> None:
    """Stop the visitor's answer."""
    visit.state.stop(visit.session)


STREAM = Stream(
    "answer",
    "answer",
    {"start": Event(start, trigger="multiple"), "stop": Event(halt, trigger="multiple")},
    Stops,
    Stops.stop,
)
