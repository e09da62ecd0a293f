"""The layer between the network and the page: allowed paths, size limits, rate limits, and headers.

It is plain ASGI, so that streamed answers pass through chunk by chunk.
"""

import asyncio
import json
import logging
import re
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.cluster.workers.haproxy import HEALTH
from viz.server import calls
from viz.server.clients import as_asked, at_itself, client_of, is_foreign, is_ours, name_of
from viz.server.guard.door import Door
from viz.server.guard.rate_limit import Buckets
from viz.server.headers import dress
from viz.words import pick_language, words
from viz.work.playground import Options
from viz.work.rates import COMPUTING, COMPUTING_EACH, VISITS
from viz.work.under_way import UnderWay

log = logging.getLogger("playground")

MOST_ADDRESS = 8192  # maximum length of a path with its query in characters
MOST_OPEN = 400  # maximum number of concurrent requests per address; a browser holds one, and each waiting page another
LONG = 64 << 10  # size in bytes from which a body is parsed in a separate thread
BODY_SECONDS = 30.0  # seconds to wait for a complete body
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")  # MCP uses DELETE to end a session
API = "/gradio_api/"
ATTENTION = "/playground/attention"  # its body is a file
COMPUTED = (
    "/playground/lessons/",
    ATTENTION,
    *(f"/playground/{each}" for each in ("view", "job", "stream", "model", "link")),
)
VISIT = re.compile(rb'"visit" ?: ?"([A-Za-z0-9_-]{1,64})"')  # the visit in a request of the page
# The routes of Gradio that the page and programs need: no files, uploads, streams, proxies or editors.
PAGE = ("/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt")
FOLDERS = ("/assets/", "/static/", "/playground/", "/pwa_icon")
CALLS = ("queue/join", "queue/data", "call/", "mcp", "info", "cancel", "reset", "startup-events", "theme.css")
COMPUTING_CALLS = ("queue/join", "call/", "mcp")  # POSTs that start a computation
DOOR = ("/login", "/logout")  # served only if the server has logins
# the only paths that are served before login
OUTSIDE = (*DOOR, "/favicon.ico", "/robots.txt", HEALTH)
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


# --- the request ----------------------------------------------------------------------------------


def path_of(scope: Scope) -> str:
    """Return the path of a request, without the folder in which the app is mounted."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def is_open(path: str) -> bool:
    """Return whether a path is served."""
    if path.startswith(API):
        return path.removeprefix(API).startswith(CALLS)
    return path in PAGE or path.startswith(FOLDERS)


async def body_of(receive: Receive, limit: int) -> bytes | None:
    """Read the body of a request; None if it is larger than `limit` in total, in any number of chunks."""
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


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that replays a body that was already read, and then continues with the original one."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again


@dataclass(eq=False)
class RefusedRequest(Exception):
    """The reason why a request is rejected, and the seconds after which it may be repeated."""

    status: int
    wait: float = 0.0
    name: str = ""  # the host name, if it is the reason


def refusal(refused: RefusedRequest, scope: Scope) -> Response:
    """Build the response to a rejected request, in the user's language; as JSON for programs, which look for
    "detail".
    """
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
    """Middleware that checks every request before Gradio sees it, and adds the headers to every answer."""

    app: ASGIApp
    options: Options
    functions: calls.Functions
    door: Door | None = None
    visits: Buckets = field(default_factory=lambda: Buckets(VISITS))
    computing: Buckets = field(default_factory=lambda: Buckets(COMPUTING))
    computing_each: Buckets = field(default_factory=lambda: Buckets(COMPUTING_EACH))
    under_way: UnderWay = field(default_factory=UnderWay)  # requests in progress, by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # the page uses no websockets
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = ended = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun, ended
            if message["type"] == "http.response.start":
                begun = True
                dress(message, path_of(scope), self.options)
            elif message["type"] == "http.response.body":
                ended = not message.get("more_body", False)
            await send(message)

        scope = as_asked(scope, self.options.proxies)
        client = client_of(scope, self.options.proxies)
        name = self.door.name_inside(scope) if self.door else None
        scope["playground.name"] = name
        scope["playground.client"] = client if name is None else name  # identifies the client that is scheduled
        with self.under_way.one_more(client):
            try:
                receive = await self._admitted(scope, receive, client, name)
                await self.app(self._led(scope, name), receive, send_with_headers)
            except RefusedRequest as refused:
                await refusal(refused, scope)(scope, receive, send_with_headers)
            except Exception:
                if begun and not ended:
                    raise
                log.exception("a request failed")
                if not begun:
                    await refusal(RefusedRequest(500), scope)(scope, receive, send_with_headers)

    def _led(self, scope: Scope, name: str | None) -> Scope:
        """Send a request for the page without a login to the login form; leave all others unchanged."""
        path = path_of(scope)
        if self.door and path == "/" and (name is None or scope["method"] == "POST"):
            where = scope["path"].removesuffix("/") + "/login"
            return scope | {"path": where, "raw_path": where.encode()}
        return at_itself(scope) if path.startswith(f"{API}mcp") and scope["method"] == "POST" else scope

    async def _admitted(self, scope: Scope, receive: Receive, client: str, name: str | None) -> Receive:
        """Check a request and return its receive channel; raises RefusedRequest."""
        path, method = path_of(scope), scope["method"]
        host = Headers(scope=scope).get("host", "")
        if not is_ours(name_of(host), self.options):
            raise RefusedRequest(403, name=name_of(host)[:80] or "?")
        if is_foreign(scope, self.options):
            raise RefusedRequest(403)
        if self.options.public:
            self._count(self.visits, client)
            if self.under_way[client] > MOST_OPEN:
                raise RefusedRequest(429, 5.0)
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            raise RefusedRequest(414)
        if method not in METHODS or not (is_open(path) or (self.door and path in DOOR)):
            raise RefusedRequest(405 if method not in METHODS else 404)
        if self.door and name is None and path not in ("/", *OUTSIDE):
            raise RefusedRequest(401)
        if not calls.names_sessions(scope["query_string"]):
            raise RefusedRequest(400)
        if method != "POST":
            return receive
        return await self._bounded(scope, receive, client)

    async def _bounded(self, scope: Scope, receive: Receive, client: str) -> Receive:
        """Check the size of a request's body and return its receive channel; raises RefusedRequest."""
        path, allowed = path_of(scope), self.options.allowed
        limit = allowed.attention if path == ATTENTION else allowed.body
        length = Headers(scope=scope).get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RefusedRequest(400)
        if len(length) > 15 or int(length) > limit:
            raise RefusedRequest(413)
        try:
            body = await asyncio.wait_for(body_of(receive, limit), BODY_SECONDS)
        except TimeoutError as error:
            raise RefusedRequest(408) from error
        if body is None:
            raise RefusedRequest(413)
        where = path.removeprefix(API)
        if path.startswith(COMPUTED):
            match = VISIT.search(body)
            self._count_computing(client, match[1].decode() if match else "")
        if path.startswith(API) and body:
            computes = where.startswith(COMPUTING_CALLS)
            session = await self._called(where, body, computes)
            if computes:
                scope["playground.session"] = session
                self._count_computing(client, session)
        return replayed(body, receive)

    async def _called(self, where: str, body: bytes, computes: bool) -> str:
        """Return the session that a request to Gradio names; raises RefusedRequest for a malformed call."""
        try:
            call = await asyncio.to_thread(calls.read, body) if len(body) > LONG else calls.read(body)
            if where.startswith("mcp"):
                return ""
            session = calls.session_of(call)
            if computes:
                self.functions.check(where, call)
        except calls.Unreadable as error:
            log.warning("a call was refused: %s", error)
            raise RefusedRequest(400) from None
        return session

    def _count_computing(self, client: str, visit: str) -> None:
        """Count a request that starts a computation, for its page or session and for its client."""
        if self.options.public:
            self._count(self.computing_each, (client, visit))
            self._count(self.computing, client)

    def _count(self, buckets: Buckets, client: object) -> None:
        if wait := buckets.wait(client):
            raise RefusedRequest(429, wait)
