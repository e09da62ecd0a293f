"""How this process is: whether it takes new pages, and how much it has to do; a line for a proxy and its operator."""

import json
import os
import threading
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from viz.server.workers.haproxy import HEALTH
from viz.work.playground import Playground


@dataclass(eq=False)
class Health:
    """The state of a process that serves the page."""

    playground: Playground
    draining: threading.Event  # set: it takes no new pages, which the proxy is told when it next asks; open ones go on

    def report(self) -> dict:
        """What there is to do now."""
        presence, queue = self.playground.presence, self.playground.queue
        return {
            "state": "draining" if self.draining.is_set() else "ready",
            "process": os.getpid(),
            "pages": presence.open_pages,
            "listening": presence.listeners,
            "computing_waits": self.playground.computing.waiting,
            "long_work": sum(each.kind != "view" for each in queue.working),
            "long_work_waits": sum(each.kind != "view" for each in queue.line),
        }

    def answer(self, request: Request) -> Response:
        """The report; 404 while it drains, which is how the proxy is told to send nobody new."""
        report = self.report()
        return Response(json.dumps(report), 404 if self.draining.is_set() else 200, media_type="application/json")

    def route(self) -> Route:
        """The line, for whoever can reach the process; the proxy of `--workers` does not pass it on."""
        return Route(HEALTH, self.answer)
