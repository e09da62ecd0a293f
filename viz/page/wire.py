"""The page's own wire: a question by POST, the answer as lines of JSON; closing the request cancels the work.

A question says what the page shows, so the server keeps nothing of a page. The lines of an answer, in their order:

VIEW: {"running": {done, total, seconds}} while a run takes long; {"early": {part: payload}} for pictures that are drawn
before the run has ended; at last {"parts": {part: payload}, "shown": what the page shows then}.
JOB: {"stopped": payload}, what its part shows once the page has closed the request; {"bar": payload} as it goes on; at
last, where there is a result, {"done": a name for it}.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
from anyio import to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model.errors import PlaygroundError
from viz.page import address
from viz.page.ahead import Closed
from viz.page.job_channel import PLANS
from viz.page.parts import packed
from viz.page.pipeline import ASKS, PageRequest, answer, scene_of
from viz.seam.jobs.background import Job, failed, perform_in_turn, stopped
from viz.seam.notices import broken
from viz.views.tabs import TABS
from viz.words import pick_language
from viz.work.playground import MOST_NAME, Playground

log = logging.getLogger("playground")
VIEW, JOB = "/playground/view", "/playground/job"
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
        _text(sent.get("prompt")),
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


def _text(sent: Any, limit: int | None = None) -> str:
    """Return a text, cut at `limit` characters where there is one; "" for anything else."""
    return sent[:limit] if isinstance(sent, str) else ""


# --- the answer ---------------------------------------------------------------------------------------


def routes(playground: Playground) -> list[Route]:
    """Return the routes of the wire."""

    limiter = anyio.CapacityLimiter(playground.engine.threads)

    async def asked(request: Request) -> tuple[Mapping[str, Any], PageRequest] | Response:
        """What a page sent, and its question; the answer to what is none, or to somebody else's."""
        language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
        try:
            sent = read(await request.body())
        except ValueError:
            return JSONResponse({"detail": "This is not a question of a page."}, 400)
        question, owner = page_request(sent, language), request.scope.get("playground.client", "")
        if not question.visitor or not playground.presence.belongs(question.visitor, owner):
            return JSONResponse({"detail": "This visit is somebody else's."}, 403)
        return sent, question

    async def job(request: Request) -> Response:
        found = await asked(request)
        if isinstance(found, Response):
            return found
        part = found[0].get("part")
        if not isinstance(part, str) or part not in PLANS:
            return JSONResponse({"detail": "There is no such job."}, 400)
        return _stream(job_lines(playground, found[1], part, limiter))

    async def view(request: Request) -> Response:
        found = await asked(request)
        if isinstance(found, Response):
            return found
        question = found[1]
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            ticket = playground.queue.join(question.visitor, "view", lambda: _soon(loop, ready.set))
        except PlaygroundError as error:
            return JSONResponse({"detail": error.what}, 503, {"retry-after": "1"})
        lines = answer_lines(playground, question, ready, ticket.leave)
        return _stream(lines)

    return [Route(VIEW, view, methods=["POST"]), Route(JOB, job, methods=["POST"])]


def _stream(lines: AsyncIterator[str]) -> Response:
    return StreamingResponse(lines, media_type=LINES, headers={"cache-control": "no-store"})


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
                    yield _line(running=report)
                continue
            if line is None:
                return
            yield f"{line}\n"
    finally:
        closed.set()
        if task is None:
            leave()


async def job_lines(
    playground: Playground, question: PageRequest, part: str, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Do the job of a part's button; yields the lines. Closing the iterator ends the work at its next step."""
    language, stop = question.language, threading.Event()
    yield _line(stopped=stopped(language))
    try:
        job = await to_thread.run_sync(_planned, playground, question, part, limiter=limiter)
    except PlaygroundError as error:
        yield _line(bar=failed(error, language))
        return
    steps = perform_in_turn(playground, question.visitor, job, language, stop)
    try:
        while (step := await to_thread.run_sync(next, steps, None, limiter=limiter)) is not None:
            payload, ended = step
            yield _line(done=ended) if payload is None else _line(bar=payload)
    finally:
        stop.set()


def _planned(playground: Playground, question: PageRequest, part: str) -> Job:
    """Return the job that a part's button starts; raises PlaygroundError."""
    return PLANS[part](scene_of(playground, question), question.values)


def _line(**fields: object) -> str:
    return f"{packed(fields)}\n"


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call a function in the thread of an event loop, from any thread."""
    loop.call_soon_threadsafe(call)
