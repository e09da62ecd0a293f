"""The presence connection that open pages keep; work started by a page ends when no connection names its visit
anymore.
"""

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from viz.server.calls import is_session
from viz.work.presence import Presence

BEAT_SECONDS = 15.0  # interval of heartbeats on a presence connection
MOST_PAGES = 256  # maximum number of pages per connection, as in static/page/server/line.js
GRACE = 60.0  # seconds for which the work of a page is kept after its connection was cut, for it to reconnect


class Here:
    """GET /playground/here/VISIT,VISIT: the presence connection of open pages.

    A visit that has sent no request has no work to end and costs nothing.
    """

    def __init__(self, presence: Presence) -> None:
        self.presence = presence
        self._ends: dict[str, asyncio.Task] = {}  # visit -> the task that ends its work; a page that returns cancels it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visits = set(scope["path_params"]["visits"].split(","))
        if len(visits) > MOST_PAGES or not all(map(is_session, visits)) or scope["method"] != "GET":
            await Response(status_code=400)(scope, receive, send)
            return
        gone = asyncio.create_task(_gone(receive))
        for visit in visits:
            self.presence.arrive(visit)
            if task := self._ends.pop(visit, None):
                task.cancel()
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not gone.done():
                await send({"type": "http.response.body", "body": b"data: ALIVE\n\n", "more_body": True})
                await asyncio.wait((gone,), timeout=BEAT_SECONDS)
        finally:
            gone.cancel()
            for visit in visits:
                if self.presence.depart(visit) and self.presence.is_known(visit):
                    self._ends[visit] = asyncio.create_task(self._end(visit))

    async def _end(self, visit: str) -> None:
        """End the work of a page that did not reconnect."""
        await asyncio.sleep(GRACE)
        del self._ends[visit]
        await run_in_threadpool(self.presence.leaving, visit)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def route(presence: Presence) -> Route:
    """Return the route of the presence connection."""
    return Route("/playground/here/{visits}", Here(presence))
