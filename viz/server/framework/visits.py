"""What Gradio keeps for a visitor, made cheap and bounded: a visit's states, and the line that says a page is open."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import gradio as gr
from gradio import blocks, mcp, route_utils, routes, state_holder
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.calls import is_session
from viz.work.presence import Presence

BEAT_SECONDS = 15.0  # between two signs of life on the line of an open page
MOST_PAGES = 256  # on one line, as in static/page/server/line.js
GRACE = 3.0  # seconds in which a page whose line was cut may be on another one


class Visit(state_holder.SessionState):
    """The states of one visit. Gradio would also describe all components of the page anew for each, 50 ms of the
    event loop, and hold the last payload of each, megabytes: for links that this page does not use."""

    def __init__(self, page: gr.Blocks):
        self.blocks_config = copy(page.default_config)
        self.config_values: dict = {}
        self.state_data: dict = {}
        self._state_ttl: dict = {}
        self.is_closed = False
        self.STATE_TTL_WHEN_CLOSED = 3600

    def __setitem__(self, key: int, value: object) -> None:
        if isinstance(self.blocks_config.blocks.get(key), gr.State):
            self.state_data[key] = value
        else:
            self.blocks_config.blocks[key] = value

    def _update_config(self, key: int) -> None:
        pass

    def _update_value_in_config(self, key: int, value: object) -> None:
        pass


class Visits(state_holder.StateHolder):
    """The visits of a server. Beyond its capacity those go first whose page is not open, the oldest of them first;
    where all are open, `has_room` says no to another one."""

    presence: Presence = Presence()

    def has_room(self, visit: str) -> bool:
        """Whether a visit is known or could be."""
        if visit in self.session_data or len(self.session_data) < self.capacity:
            return True
        return any(not self.presence.is_here(each) for each in self.session_data)

    def update(self, session_id: str) -> None:
        with self.lock:
            if session_id in self.session_data:
                self.session_data.move_to_end(session_id)
            while len(self.session_data) > self.capacity:
                gone = (each for each in self.session_data if each != session_id and not self.presence.is_here(each))
                oldest = next(gone, None) or next(iter(self.session_data))
                self.session_data.pop(oldest)
                self.time_last_used.pop(oldest, None)


def install() -> None:
    """Have Gradio make these for every visit from now on."""
    for module in (state_holder, blocks, mcp, route_utils):
        module.SessionState = Visit  # type: ignore[attr-defined]
    routes.StateHolder = Visits  # type: ignore[misc]


def attend(page: gr.Blocks, presence: Presence) -> None:
    """Have a launched page ask `presence` who is there."""
    page.app.state_holder.presence = presence


class Heartbeat:
    """GET /gradio_api/heartbeat/VISIT,VISIT: the line that open pages hold. What pages had begun that are on no line
    any more is ended.

    For a visit that the server has never drawn for there is nothing to end, so that it costs nothing.
    """

    def __init__(self, presence: Presence):
        self.presence = presence
        self._ends: set[asyncio.Task] = set()  # a task that nothing refers to may be lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visits, app = set(scope["path_params"]["visits"].split(",")), scope["app"]
        if len(visits) > MOST_PAGES or not all(map(is_session, visits)) or scope["method"] != "GET":
            await Response(status_code=400)(scope, receive, send)
            return
        gone = asyncio.create_task(_gone(receive))
        stopped = asyncio.create_task(app.stop_event.wait())
        drawn = app.state_holder.session_data
        for visit in visits:
            self.presence.arrive(visit)
            if (kept := drawn.get(visit)) is not None:
                kept.is_closed = False
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not (gone.done() or stopped.done()):
                await send({"type": "http.response.body", "body": b"data: ALIVE\n\n", "more_body": True})
                await asyncio.wait((gone, stopped), timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            stopped.cancel()
            closed = {visit for visit in visits if self.presence.depart(visit)}
            if known := closed & drawn.keys():
                task = asyncio.create_task(self._end(known, drawn))
                self._ends.add(task)
                task.add_done_callback(self._ends.discard)

    async def _end(self, visits: Iterable[str], drawn: Mapping[str, Any]) -> None:
        """End what pages had begun that do not come back."""
        await asyncio.sleep(GRACE)
        for visit in visits:
            if not self.presence.is_open(visit) and (kept := drawn.get(visit)) is not None:
                kept.is_closed = True
                await run_in_threadpool(self.presence.leaving, visit)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def heartbeat(presence: Presence) -> Route:
    """The route, to stand before Gradio's own."""
    return Route("/playground/here/{visits}", Heartbeat(presence))


class Listeners:
    """Notes who reads answers, and lets nobody read or cancel those of another login name."""

    def __init__(self, app: ASGIApp, presence: Presence):
        self.app, self.presence = app, presence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visits: set[str] = set()
        reads = scope["type"] == "http" and scope["method"] == "GET"
        if reads:
            visits = _read(scope)
        elif scope["type"] == "http" and scope["path"].endswith("/gradio_api/cancel"):
            visits, receive = await _cancelled(scope, receive)
        if any(self._is_anothers(visit, scope) for visit in visits):
            await Response('{"detail": "This is somebody else\'s work."}', 404, media_type="application/json")(
                scope, receive, send
            )
            return
        for visit in visits if reads else ():
            self.presence.listen(visit)
        try:
            await self.app(scope, receive, send)
        finally:
            for visit in visits if reads else ():
                self.presence.deafen(visit)

    def _is_anothers(self, visit: str, scope: Scope) -> bool:
        """Whether a visit is of another login name; where nobody has one, a visit's own name is the secret."""
        owner = self.presence.owner_of(visit)
        return scope["app"].auth is not None and owner not in (visit, scope.get("playground.client", ""))


def _read(scope: Scope) -> set[str]:
    """The visit whose answers a request is to read; none for another request."""
    path = scope["path"]
    if path.endswith("/gradio_api/queue/data"):
        return {Request(scope).query_params.get("session_hash", "")}
    _, call, rest = path.partition("/gradio_api/call/")
    event = rest.rpartition("/")[2] if call else ""
    return {_visit_of(event, scope)} if event else set()


async def _cancelled(scope: Scope, receive: Receive) -> tuple[set[str], Receive]:
    """The visits whose work a request is to cancel, and its body once more."""
    body = await Request(scope, receive).body()
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    try:
        asked = json.loads(body)
        names = [str(asked.get("session_hash") or ""), _visit_of(str(asked.get("event_id") or ""), scope)]
    except (ValueError, AttributeError, RecursionError):
        names = []  # Gradio says what is wrong with it
    return {name for name in names if name}, again


def _visit_of(event: str, scope: Scope) -> str:
    """The visit that asked a question, by the question's id, which is the visit's own where none is known."""
    queue = scope["app"].get_blocks()._queue
    known = queue.event_ids_to_events.get(event)
    if known is not None:
        return known.session_hash
    return next((visit for visit, events in queue.pending_event_ids_session.items() if event in events), event)
