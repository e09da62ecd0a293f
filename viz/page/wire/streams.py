"""Events of streams: a script sends one and reads the lines that its handler yields."""

import inspect
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from viz.page import answer
from viz.page.pipeline import PageRequest
from viz.page.streams import answers
from viz.page.wire.lines import in_threads, line
from viz.seam.panels import asks_of
from viz.seam.view import Event, Models, Open, Stream, View, Visit
from viz.views.tabs import TABS
from viz.work.playground import Playground


@dataclass(frozen=True, eq=False)
class Channel:
    """A stream of this app, with its state."""

    stream: Stream
    view: View | None  # None for the answer to a conversation
    state: Any

    def visit(self, playground: Playground, question: PageRequest) -> Visit:
        """Return the owner of the event, and the page's settings at that moment."""
        asks = asks_of(self.view) if self.view else ()
        values = {name: question.values[name] for name in asks if name in question.values}
        rest = question.model_id, question.asked, values, self.state
        return Visit(playground, question.visitor, question.language, *rest)


def channels() -> Mapping[str, Channel]:
    """Return the streams of all views and the answer to a conversation, each new, by their names on the page."""
    views = [view for tab in TABS for view in tab.all_views]
    found = {view.part_name(each.name): Channel(each, view, each.state()) for view in views for each in view.streams}
    return found | {answer.STREAM.name: Channel(answer.STREAM, None, answer.STREAM.state())}


async def event_lines(
    playground: Playground, event: Event, visit: Visit, sent: object, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Handle an event; yields {"payload"}, {"models": [[label, id]]} and {"open": {model, prompt, tab}}.

    Closing the iterator closes the handler at its next step.
    """
    if not inspect.isgeneratorfunction(event.handle):
        await to_thread.run_sync(event.handle, visit, sent, limiter=limiter)
        return
    steps, step_ends = answers(event, visit, sent), threading.Lock()

    def locked() -> Any:
        with step_ends:
            return next(steps)

    def close() -> None:
        with step_ends:
            steps.close()

    try:
        async for each in in_threads(iter(locked, object()), limiter):
            if isinstance(each, Models):
                yield line(models=playground.choices(visit.session))
            elif isinstance(each, Open):
                yield line(open={"model": each.model_id, "prompt": each.prompt, "tab": each.tab})
            else:
                yield line(payload=each)
    finally:
        threading.Thread(target=close, daemon=True).start()  # its step may take a while yet
