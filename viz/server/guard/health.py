"""The health report of a process: whether it accepts new pages, and its load; for the proxy and the operator."""

import ipaddress
import json
import os
import threading
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from viz.cluster.workers.haproxy import HEALTH
from viz.work.playground import Playground


@dataclass(eq=False)
class Health:
    """The load of a process that serves the page, and whether it is draining."""

    playground: Playground
    # if set, no new pages are accepted, which the proxy learns at its next check; open pages continue
    draining: threading.Event

    def report(self) -> dict:
        """Collect the current load."""
        presence, queue = self.playground.presence, self.playground.queue
        return {
            "state": "draining" if self.draining.is_set() else "ready",
            "engine": "reachable" if self.playground.engine.is_reachable() else "lost",
            "process": os.getpid(),
            "pages": presence.open_pages,
            "listening": presence.listeners,
            "computing_waits": self.playground.computing.waiting,
            "long_work": sum(each.kind != "view" for each in queue.working),
            "long_work_waits": sum(each.kind != "view" for each in queue.line),
        }

    def answer(self, request: Request) -> Response:
        """Send the report, with status 404 while the process drains, so that the proxy sends it no new pages.

        Only requests from this machine that did not pass through a proxy get the report, such as the proxy's own
        checks.
        """
        if not is_local(request):
            return Response("", 404)
        report = self.report()
        return Response(json.dumps(report), 404 if self.draining.is_set() else 200, media_type="application/json")

    def route(self) -> Route:
        """Return the route of the report."""
        return Route(HEALTH, self.answer)


def is_local(request: Request) -> bool:
    """Return whether a request was made on this machine and did not pass through a proxy."""
    try:
        peer = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    proxied = request.scope.get("playground.proxied", "x-forwarded-for" in request.headers)
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback and not proxied
