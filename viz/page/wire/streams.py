"""Events of streams: a script sends an event and reads the lines that its handler yields."""

import inspect
import logging
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from model.errors import PlaygroundError
from viz.page import answer
from viz.page.pipeline import PageRequest
from viz.page.wire.lines import in_threads, line
from viz.seam.notices import broken, notice
from viz.seam.panels import asks_of
from viz.seam.view import Event, ModelsChanged, Open, Payload, Stream, View, Visit
from viz.views.tabs import TABS
from viz.work.playground import Playground

log = logging.getLogger("playground")


@dataclass(frozen=True, eq=False)
class Channel:
    """A stream of this app, and its state."""

    stream: Stream
    view: View | None  # None for the answer to a conversation
    state: Any

    def visit(self, playground: Playground, question: PageRequest) -> Visit:
        """Build the visit that sent an event, with the page's settings at that time."""
        asks = asks_of(self.view) if self.view else ()
        values = {name: question.values[name] for name in asks if name in question.values}
        state = question.model_id, question.parsed_prompt, values, self.state
        return Visit(playground, question.visitor, question.language, *state)


def channels() -> Mapping[str, Channel]:
    """Create the streams by their names on the page: those of all views, and the answer to a conversation."""
    views = [view for tab in TABS for view in tab.all_views]
    by_view = {view.part_name(each.name): Channel(each, view, each.state()) for view in views for each in view.streams}
    return by_view | {answer.STREAM.name: Channel(answer.STREAM, None, answer.STREAM.state())}


async def event_lines(
    playground: Playground, event: Event, visit: Visit, sent: object, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Handle an event; yields {"payload"}, {"models": [[label, id]]} and {"open": {model, prompt, tab}}.

    Closing the iterator closes the handler at its next step.
    """
    if not inspect.isgeneratorfunction(event.handle):
        await to_thread.run_sync(event.handle, visit, sent, limiter=limiter)
        return
    async with aclosing(in_threads(answers(event, visit, sent), limiter)) as steps:
        async for each in steps:
            if isinstance(each, ModelsChanged):
                yield line(models=playground.choices(visit.session))
            elif isinstance(each, Open):
                yield line(open={"model": each.model_id, "prompt": each.prompt, "tab": each.tab})
            else:
                yield line(payload=each)


def answers(event: Event, visit: Visit, sent: object) -> Generator[Payload | Open | ModelsChanged, None, None]:
    """Yield the payloads of an event; an error contains the tag of the page's request, {"tag": ...}."""
    try:
        yield from event.handle(visit, sent) or ()
    except PlaygroundError as error:
        yield _failed(notice(error, visit.language), sent)
    except Exception:
        log.exception("an event of a stream failed")
        yield _failed(broken(visit.language), sent)


def _failed(why: Payload, sent: object) -> Payload:
    tag = {"tag": sent["tag"]} if isinstance(sent, Mapping) and isinstance(sent.get("tag"), str) else {}
    return {**tag, "error": {"text": why["text"], "hint": why["hint"]}}
