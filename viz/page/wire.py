"""The page's own wire: a question by POST, the answer as lines of JSON; closing the request cancels the work.

A question says what the page shows, so the server keeps nothing of a page. The lines of an answer, in their order:
{"running": {done, total, seconds}} while a run takes long, {"early": {part: payload}} for pictures that are drawn
before the run has ended, and at last {"parts": {part: payload}, "shown": what the page shows then}.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model.errors import PlaygroundError
from viz.page import address
from viz.page.ahead import Closed
from viz.page.parts import packed
from viz.page.pipeline import ASKS, PageRequest, answer
from viz.seam.notices import broken
from viz.views.tabs import TABS
from viz.words import pick_language
from viz.work.playground import MAX_CHARACTERS, MOST_NAME, Playground

log = logging.getLogger("playground")
VIEW = "/playground/view"
TELL_AFTER = 1.0  # seconds that a run may take before its progress is told
TELL_EVERY = 0.5
MOST_ID = 64  # characters of the name of a visit or of a part
LINES = "application/x-ndjson"


# --- the question -------------------------------------------------------------------------------------


def read(body: bytes) -> Mapping[str, Any]:
    """Return the question that a page sent. Raises ValueError for what is not a JSON object."""
    try:
        sent = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(sent, Mapping):
        raise ValueError("not an object")
    return sent


def page_request(sent: Mapping[str, Any], language: str) -> PageRequest:
    """Return what a page asks; fields that are not of their form count as absent."""
    values = sent.get("values")
    named = {name: values[name] for name in ASKS & values.keys()} if isinstance(values, Mapping) else {}
    return PageRequest(
        _text(sent.get("model"), MOST_NAME),
        _text(sent.get("prompt"), 2 * MAX_CHARACTERS),
        sent.get("selection"),
        named,
        shown_of(sent.get("shown")),
        language,
        _text(sent.get("tab"), MOST_ID) or TABS[0].key,
        _text(sent.get("done"), MOST_ID),
        address.step_of({"n": sent.get("step")}),
        visitor=_text(sent.get("visit"), MOST_ID),
        chat=sent.get("chat"),
    )


def shown_of(sent: Any) -> dict:
    """Return what a page says that it shows: {"run", "language", "step", "drawn": {part: key}}."""
    if not isinstance(sent, Mapping):
        return {}
    drawn = sent.get("drawn")
    named = {name: key for name, key in drawn.items() if isinstance(key, str)} if isinstance(drawn, Mapping) else {}
    texts = {name: sent[name] for name in ("run", "language") if isinstance(sent.get(name), str)}
    return {**texts, "step": address.step_of({"n": sent.get("step")}), "drawn": named}


def _text(sent: Any, limit: int) -> str:
    """Return a text, cut at `limit` characters; "" for anything else."""
    return sent[:limit] if isinstance(sent, str) else ""


# --- the answer ---------------------------------------------------------------------------------------


def routes(playground: Playground) -> list[Route]:
    """Return the routes of the wire."""

    async def view(request: Request) -> Response:
        language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
        try:
            question = page_request(read(await request.body()), language)
        except ValueError:
            return JSONResponse({"detail": "This is not a question of a page."}, 400)
        owner = request.scope.get("playground.client", "")
        if not question.visitor or not playground.presence.belongs(question.visitor, owner):
            return JSONResponse({"detail": "This visit is somebody else's."}, 403)
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            ticket = playground.queue.join(question.visitor, "view", lambda: _soon(loop, ready.set))
        except PlaygroundError as error:
            return JSONResponse({"detail": error.what}, 503, {"retry-after": "1"})
        lines = answer_lines(playground, question, ready, ticket.leave)
        return StreamingResponse(lines, media_type=LINES, headers={"cache-control": "no-store"})

    return [Route(VIEW, view, methods=["POST"])]


async def answer_lines(
    playground: Playground, question: PageRequest, ready: asyncio.Event, leave: Callable[[], None]
) -> AsyncIterator[str]:
    """Answer a question once it is its turn; yields the lines. Closing the iterator ends the work at the next layer."""
    loop, lines, closed = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

    def say(line: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, packed(dict(line)))

    def alive() -> None:
        if closed.is_set():
            raise Closed

    def work() -> None:
        try:
            parts, shown = answer(playground, question, lambda name, payload: say({"early": {name: payload}}), alive)
            say({"parts": parts, "shown": shown})
        except Closed:
            if not closed.is_set():  # somebody else asked for the same run first, and left
                work()
        except Exception:
            log.exception("a question of a page failed")
            say({"parts": {"notice": broken(question.language)}, "shown": question.shown})

    async def worked() -> None:
        try:
            await run_in_threadpool(work)
        finally:
            leave()
            lines.put_nowait(None)

    task = None
    try:
        await ready.wait()
        task, wait = asyncio.create_task(worked()), TELL_AFTER
        while True:
            try:
                line = await asyncio.wait_for(lines.get(), wait)
            except TimeoutError:
                wait = TELL_EVERY
                if report := playground.running.report():
                    yield f"{packed({'running': report})}\n"
                continue
            if line is None:
                return
            yield f"{line}\n"
    finally:
        closed.set()
        if task is None:
            leave()


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call a function in the thread of an event loop, from any thread."""
    loop.call_soon_threadsafe(call)
