"""The page's own protocol: requests by POST, answers as lines of JSON; closing the request cancels the work.

A request contains the page's state, so the server stores none. The lines of an answer, in order:

* VIEW: {"running": {done, total, seconds}} during a long run; {"early": {part: payload}} for pictures that are drawn
  before the run has ended; finally {"parts": {part: payload}, "shown": the page's state afterwards}.
* JOB: {"stopped": payload}, which the part shows if the page closes the request; {"bar": payload} during the job;
  finally, if there is a result, {"done": a name for it}. With "keep", it sets instead whether the job in progress goes
  on without its page, and with "resume" the answer has the further lines of such a job.
* STREAM: viz.page.wire.streams.event_lines. MODEL: viz.page.wire.models.model_lines. LINK answers with one value.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model.errors import PlaygroundError
from viz.page.pipeline import PageRequest
from viz.page.wire.jobs import PLANS, PageJobs
from viz.page.wire.lines import sent as sending
from viz.page.wire.models import model_lines, restored
from viz.page.wire.question import MOST_ID, page_request, read, text_of
from viz.page.wire.streams import channels, event_lines
from viz.page.wire.view import answer_lines
from viz.words import pick_language
from viz.work.playground import MOST_NAME, Playground
from viz.work.queue import QueueFull
from viz.work.under_way import UnderWay

VIEW, JOB, STREAM = "/playground/view", "/playground/job", "/playground/stream"
MODEL, LINK = "/playground/model", "/playground/link"
Answer = Callable[[Mapping[str, Any], PageRequest], Awaitable[Response]]


def routes(playground: Playground) -> list[Route]:
    """Build the routes of the protocol, with the streams of this app."""
    limiter = anyio.CapacityLimiter(playground.engine.threads)
    streams, jobs = channels(), PageJobs(playground, limiter)
    at_work: set[asyncio.Task] = set()

    def left(visitor: str) -> None:
        playground.leave(visitor)
        jobs.leave(visitor)
        for channel in streams.values():
            channel.stream.leave(channel.state, visitor)

    playground.presence.leaving = left

    async def view(sent: Mapping[str, Any], question: PageRequest) -> Response:
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            ticket = playground.queue.join(question.visitor, "view", lambda: loop.call_soon_threadsafe(ready.set))
        except PlaygroundError as error:
            return _busy(error)
        return sending(answer_lines(playground, question, ready, ticket.leave, at_work))

    async def job(sent: Mapping[str, Any], question: PageRequest) -> Response:
        part = sent.get("part")
        if not isinstance(part, str) or part not in PLANS:
            return _refused("There is no such job.")
        if isinstance(sent.get("keep"), bool):
            jobs.keep(question.visitor, part, sent["keep"])
            return Response(status_code=204)
        return sending((jobs.resume if sent.get("resume") is True else jobs.start)(question, part))

    async def stream(sent: Mapping[str, Any], question: PageRequest) -> Response:
        channel = streams.get(text_of(sent.get("part"), MOST_ID))
        event = channel.stream.events.get(text_of(sent.get("event"), MOST_ID)) if channel else None
        if channel is None or event is None:
            return _refused("There is no such stream.")
        visit = channel.visit(playground, question)
        return sending(event_lines(playground, event, visit, sent.get("sent"), limiter))

    async def model(sent: Mapping[str, Any], question: PageRequest) -> Response:
        name = text_of(sent.get("choose"), MOST_NAME + 1)
        return sending(model_lines(playground, question.visitor, name, question.language, limiter))

    async def link(sent: Mapping[str, Any], question: PageRequest) -> Response:
        to = sent.get("to") if isinstance(sent.get("to"), Mapping) else {}
        return JSONResponse(await run_in_threadpool(restored, playground, to, question.model_id, question.language))

    paths = {VIEW: view, JOB: job, STREAM: stream, MODEL: model, LINK: link}
    share = ClientShare(playground.engine.threads // 2)
    shares = dict.fromkeys((JOB, STREAM, MODEL), share)  # views are limited by the queue
    return [
        Route(path, _handler(playground, answer, shares.get(path)), methods=["POST"]) for path, answer in paths.items()
    ]


@dataclass(eq=False)
class ClientShare:
    """A limit on each client's requests in progress: at most half of the server's threads, so that others get
    answers.
    """

    most: int
    under_way: UnderWay = field(default_factory=UnderWay)

    def is_full(self, owner: str) -> bool:
        """Return whether a client has no room for another request."""
        return self.under_way[owner] >= self.most

    async def counted(self, owner: str, lines: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the lines of an answer, counting it as in progress until it ends or is closed."""
        with self.under_way.one_more(owner):
            async with aclosing(lines):  # type: ignore[type-var]
                async for each in lines:
                    yield each


def _handler(
    playground: Playground, answer: Answer, share: ClientShare | None
) -> Callable[[Request], Awaitable[Response]]:
    """Build the handler of a route: it parses the request and identifies its owner."""

    async def handle(request: Request) -> Response:
        language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
        try:
            sent = read(await request.body())
        except ValueError:
            return _refused("This is not a question of a page.")
        question, owner = page_request(sent, language), request.scope.get("playground.client", "")
        if not question.visitor or not playground.presence.belongs(question.visitor, owner):
            return _refused("This visit is somebody else's.", 403)
        if share and share.is_full(owner):
            return _busy(QueueFull())
        response = await answer(sent, question)
        if share and isinstance(response, StreamingResponse):
            response.body_iterator = share.counted(owner, response.body_iterator)
        return response

    return handle


def _busy(error: PlaygroundError) -> Response:
    return JSONResponse({"detail": error.what}, 503, {"retry-after": "1"})


def _refused(why: str, status: int = 400) -> Response:
    return JSONResponse({"detail": why}, status)
