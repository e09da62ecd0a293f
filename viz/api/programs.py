"""Endpoints as functions that Gradio calls for programs, with their place in the queue.

Gradio's own queue starts every call at once. Each call then waits here, without a thread, until its session's answers
are being read, its client has few unread answers, and its turn comes.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import gradio as gr
from anyio import to_thread

from model.errors import PlaygroundError
from viz.api import registry
from viz.api.private_names import describe
from viz.api.registry import arguments, document
from viz.seam.programs.arguments import bare
from viz.seam.programs.endpoint import Endpoint
from viz.words import words
from viz.work.playground import Playground
from viz.work.queue import QueueFull
from viz.work.under_way import UnderWay

log = logging.getLogger("playground")
MOST_CALLS = 2000  # maximum number of concurrent calls; most of them only wait, at about 10 kB each
HEARD_SECONDS = 20.0  # seconds to wait for a reader of the session's answers
MOST_WAITING = 60.0  # seconds to wait for a call's turn
UNREAD = 4  # maximum number of unread answers per client; beyond it, the client's next call waits
LOOK_SECONDS = 0.1  # seconds between two checks for unread answers


@dataclass(eq=False)
class Programs:
    """The calls of programs in progress."""

    playground: Playground
    calls: UnderWay = field(default_factory=UnderWay)

    def __post_init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(self.playground.engine.threads)

    async def call(self, endpoint: Endpoint, sent: dict[str, object], session: str, client: str) -> dict:
        """Answer a call to an endpoint when the session's turn comes; raises PlaygroundError."""
        presence, bounds = self.playground.presence, self.playground.queue.bounds
        if not presence.belongs(session, client):
            raise PlaygroundError("This visit is somebody else's.")
        if self.calls[client] >= bounds.share or self.calls.total() >= MOST_CALLS:
            raise QueueFull
        with self.calls.one_more(client):
            try:
                values = registry.checked_arguments(endpoint, sent)
                if not await presence.heard(session, HEARD_SECONDS):
                    raise QueueFull
                return await self._in_turn(endpoint, values, session, client)
            finally:
                presence.owe(session)

    async def _in_turn(self, endpoint: Endpoint, values: dict[str, object], session: str, client: str) -> dict:
        presence, queue = self.playground.presence, self.playground.queue
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        end = loop.time() + MOST_WAITING
        while presence.unread(client) >= UNREAD:
            if loop.time() > end:
                raise QueueFull
            await asyncio.sleep(LOOK_SECONDS)
        kind = "job" if endpoint.long else "view"
        ticket = queue.join(session, kind, lambda: loop.call_soon_threadsafe(ready.set))
        try:
            with anyio.move_on_after(end - loop.time()):
                await ready.wait()
            if not (ready.is_set() and presence.is_heard(session)):
                raise QueueFull
            return await to_thread.run_sync(registry.answer, self.playground, endpoint, values, limiter=self._limiter)
        finally:
            ticket.leave()


def offered(programs: Programs, endpoint: Endpoint) -> Callable[..., Any]:
    """Wrap the endpoint as a function that Gradio can call, with its signature and docstring."""
    declared = arguments(endpoint)

    async def answer(request: gr.Request, *values: object) -> dict:
        try:
            sent = dict(zip((each.name for each in declared), values, strict=True))
            client = request.request.scope.get("playground.client", "")
            return await programs.call(endpoint, sent, request.session_hash or "", client)
        except PlaygroundError as error:
            raise _error(str(error)) from None
        except Exception:
            log.exception("the endpoint %s failed", endpoint.name)
            catalogue = words("en")
            raise _error(f"{catalogue['notice.failed']} {catalogue['notice.failed_hint']}") from None

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(each.name, kind, default=each.default, annotation=bare(each.hint)) for each in declared
    ]
    answer.__name__ = answer.__qualname__ = endpoint.name
    answer.__doc__ = document(endpoint)
    parameters.insert(0, inspect.Parameter("request", kind, annotation=gr.Request))
    answer.__signature__ = inspect.Signature(parameters, return_annotation=dict)  # type: ignore[attr-defined]
    answer.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": dict}
    return answer


def _error(text: str) -> gr.Error:
    """Build an error whose text reaches the caller, without a traceback on either side."""
    return gr.Error(text, title="Not possible", print_exception=False)


def register(playground: Playground, endpoints: tuple[Endpoint, ...]) -> None:
    """Register the endpoints in the Blocks that are being built."""
    programs = Programs(playground)
    for endpoint in endpoints:
        function = offered(programs, endpoint)
        api_function = gr.api(function, api_name=endpoint.name, concurrency_limit=None)
        describe(api_function, [(each.name, each.description) for each in arguments(endpoint)])
