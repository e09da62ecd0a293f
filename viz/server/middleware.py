"""The layer between the network and the page: which requests are answered, how large, how often, with what headers.

Plain ASGI, so that answers which are sent piece by piece pass through piece by piece.
"""

import asyncio
import json
import logging
from collections import Counter
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server import calls
from viz.server.clients import as_asked, client_of, is_foreign, is_ours, name_of
from viz.server.framework import errors
from viz.server.framework.door import name_inside
from viz.server.guard.rate_limit import COMPUTING, COMPUTING_EACH, VISITS, Buckets
from viz.server.headers import dress
from viz.server.workers.haproxy import HEALTH
from viz.words import pick_language, words
from viz.work.playground import Options

log = logging.getLogger("playground")

MOST_ADDRESS = 8192  # characters of a path with its query
MOST_OPEN = 400  # requests under way of one address; a browser holds one, each page that waits another
LONG = 64 << 10  # bytes of a body that is read in a thread of its own
BODY_SECONDS = 30.0  # for a request to arrive
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")  # MCP ends a session by DELETE
API = "/gradio_api/"
COMPUTED = ("/playground/lessons/", "/playground/view", "/playground/job")  # answers to these are computed, too
# What the page, its API and MCP need of Gradio, without files, uploads, streams, proxies and editors.
PAGE = ("/", "/login", "/logout", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt")
FOLDERS = ("/assets/", "/static/", "/playground/", "/pwa_icon")
CALLS = (
    "queue/",
    "heartbeat/",
    "call/",
    "run/",
    "api/",
    "mcp",
    "info",
    "app_id",
    "cancel",
    "reset",
    "startup-events",
    "login_check",
    "theme.css",
)
COMPUTING_CALLS = ("queue/join", "call/", "run/", "api/", "mcp")  # POSTs that have something computed
# Those who have not logged in are shown the login and nothing else.
OUTSIDE = (
    "/",
    "/login",
    "/logout",
    "/theme.css",
    "/favicon.ico",
    "/manifest.json",
    "/robots.txt",
    "/assets/",
    "/static/",
    "/playground/static/",
    HEALTH,
    "/pwa_icon",
    f"{API}startup-events",
    f"{API}theme.css",
)
_NAMED = {
    400: "bad",
    401: "login",
    403: "foreign",
    404: "closed",
    405: "closed",
    408: "late",
    413: "large",
    414: "address",
    429: "busy",
    500: "failed",
}


def middleware(options: Options) -> list[Middleware]:
    """The middleware of every request, outermost first."""
    return [Middleware(Guard, options=options)]


# --- the request ----------------------------------------------------------------------------------


def path_of(scope: Scope) -> str:
    """The path of a request, without the folder that the app may be mounted at."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def is_open(path: str) -> bool:
    """Whether a path is served at all."""
    if path.startswith(API):
        return path.removeprefix(API).startswith(CALLS)
    return path in PAGE or path.startswith(FOLDERS)


def is_outside(path: str) -> bool:
    """Whether a path is served without a login, too."""
    return path in OUTSIDE or any(path.startswith(each) for each in OUTSIDE if each.endswith("/") and each != "/")


async def body_of(receive: Receive, limit: int) -> bytes | None:
    """The whole body of a request; None where it is larger than `limit`, in however many pieces it comes."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def again(body: bytes, receive: Receive) -> Receive:
    """A channel that gives a body that was read already, and then what comes after it."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again


@dataclass(eq=False)
class Refused(Exception):
    """Why a request is refused, and after how many seconds it may be repeated."""

    status: int
    wait: float = 0.0
    name: str = ""  # of the host, where that is why


def refusal(refused: Refused, scope: Scope) -> Response:
    """The answer, in the reader's language; as JSON for scripts, since Gradio shows its "detail"."""
    query = dict(part.partition("=")[::2] for part in scope["query_string"].decode("latin-1").split("&"))
    catalogue = words(pick_language(query.get("lang"), Headers(scope=scope).get("accept-language")))
    text = catalogue[f"server.{'host' if refused.name else _NAMED[refused.status]}"].format(name=refused.name)
    headers = {"retry-after": str(int(refused.wait) + 1)} if refused.wait else {}
    if path_of(scope).startswith(API):
        return Response(json.dumps({"detail": text}), refused.status, headers, "application/json")
    return Response(text, refused.status, headers, "text/plain")


# --- the middleware ---------------------------------------------------------------------------------


@dataclass(eq=False)
class Guard:
    """Looks at every request before Gradio does, and at the headers of every answer."""

    app: ASGIApp
    options: Options
    visits: Buckets = field(default_factory=lambda: Buckets(VISITS))
    computing: Buckets = field(default_factory=lambda: Buckets(COMPUTING))
    computing_each: Buckets = field(default_factory=lambda: Buckets(COMPUTING_EACH))
    under_way: Counter = field(default_factory=Counter)  # requests by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # the page uses none
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                dress(message, path_of(scope), self.options)
            await send(message)

        scope = as_asked(scope, self.options.proxies)
        client = client_of(scope, self.options.proxies)
        name = name_inside(scope) if self.options.login else None
        scope["playground.client"] = client if name is None else name  # for all that takes turns behind this
        self.under_way[client] += 1
        try:
            await self.app(scope, await self._admitted(scope, receive, client, name), send_with_headers)
        except Refused as refused:
            await refusal(refused, scope)(scope, receive, send_with_headers)
        except Exception as error:
            if begun:
                raise
            if path_of(scope).startswith(f"{API}call/v2/") and isinstance(error, KeyError | TypeError | ValueError):
                log.warning("a call was refused: %s", type(error).__name__)
                await refusal(Refused(400), scope)(scope, receive, send_with_headers)
                return
            log.exception("a request failed")
            await refusal(Refused(500), scope)(scope, receive, send_with_headers)
        finally:
            self.under_way[client] -= 1
            if not self.under_way[client]:
                del self.under_way[client]

    async def _admitted(self, scope: Scope, receive: Receive, client: str, name: str | None) -> Receive:
        """The channel of a request that may pass; raises Refused."""
        path, method = path_of(scope), scope["method"]
        host = Headers(scope=scope).get("host", "")
        if not is_ours(name_of(host), self.options):
            raise Refused(403, name=name_of(host)[:80] or "?")
        if is_foreign(scope, self.options):
            raise Refused(403)
        if self.options.public:
            self._count(self.visits, client)
            if self.under_way[client] > MOST_OPEN:
                raise Refused(429, 5.0)
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            raise Refused(414)
        if method not in METHODS or not is_open(path):
            raise Refused(405 if method not in METHODS else 404)
        if self.options.login and not is_outside(path) and name is None:
            raise Refused(401)
        if not calls.names_sessions(path.removeprefix(API), scope["query_string"]):
            raise Refused(400)
        if method != "POST":
            return receive
        return await self._bounded(scope, receive, client)

    async def _bounded(self, scope: Scope, receive: Receive, client: str) -> Receive:
        """The channel of a request whose body is not too large and not one too many; raises Refused."""
        limit, path = self.options.allowed.body, path_of(scope)
        length = Headers(scope=scope).get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise Refused(400)
        if len(length) > 15 or int(length) > limit:
            raise Refused(413)
        try:
            body = await asyncio.wait_for(body_of(receive, limit), BODY_SECONDS)
        except TimeoutError as error:
            raise Refused(408) from error
        if body is None:
            raise Refused(413)
        where = path.removeprefix(API)
        if path.startswith(COMPUTED) and self.options.public:
            self._count(self.computing, client)
        if path.startswith(API) and where.startswith(COMPUTING_CALLS) and body:
            session = await self._called(scope, where, body)
            if self.options.public:
                self._count(self.computing_each, (client, session))
                self._count(self.computing, client)
        return again(body, receive)

    async def _called(self, scope: Scope, where: str, body: bytes) -> str:
        """The session that calls a function; raises Refused for what is no call."""
        try:
            call = await asyncio.to_thread(calls.read, body) if len(body) > LONG else calls.read(body)
            if where.startswith("mcp"):
                return ""
            session = calls.session_of(call)
            errors.check(scope["app"], where, call)
        except calls.Unreadable as error:
            log.warning("a call was refused: %s", error)
            raise Refused(400) from None
        return session

    def _count(self, buckets: Buckets, client: object) -> None:
        if wait := buckets.wait(client):
            raise Refused(429, wait)
