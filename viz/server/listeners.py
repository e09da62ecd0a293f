"""Tracking of the clients that read a program's answers: work starts only while its answers are read, and only the
session's owner may read them.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.middleware import API, path_of, replayed
from viz.work.presence import Presence

MOST_EVENTS = 4096  # maximum number of events whose session is stored
EVENT = re.compile(rb'"event_id" ?: ?"(\w{1,64})"')
# matches the end of an answer in a stream: Gradio's protocol for its own clients, and for plain calls
WHOLE = re.compile(rb'"msg" ?: ?"process_completed"|^event: (?:complete|error)', re.MULTILINE)


@dataclass(eq=False)
class Listeners:
    """Middleware that records which sessions have a reader, and how many answers were sent."""

    app: ASGIApp
    presence: Presence
    _sessions: OrderedDict[str, str] = field(default_factory=OrderedDict)  # event -> the session that its call named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope).removeprefix(API) if scope["type"] == "http" else ""
        if scope.get("method") == "GET" and path.startswith(("queue/data", "call/")):
            session = self._read(scope, path)
            if self._is_anothers(session, scope):
                await _hidden(scope, receive, send)
            else:
                await self._listened(session, scope, receive, send)
        elif path == "cancel":
            body = await Request(scope, receive).body()
            names = re.findall(rb'"(?:session_hash|event_id)" ?: ?"([\w-]{1,64})"', body)
            if any(self._is_anothers(self._sessions.get(name.decode(), name.decode()), scope) for name in names):
                await _hidden(scope, receive, send)
            else:
                await self.app(scope, replayed(body, receive), send)
        elif path.startswith("call/") and scope.get("playground.session"):
            await self.app(scope, receive, self._noting(scope["playground.session"], send))
        else:
            await self.app(scope, receive, send)

    async def _listened(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that reads the answers of a session."""

        async def counted(message: Message) -> None:
            await send(message)  # waits until the client has read the previous chunks
            for _ in WHOLE.finditer(message.get("body", b"")):
                self.presence.took(session)

        self.presence.listen(session)
        try:
            await self.app(scope, receive, counted)
        finally:
            self.presence.deafen(session)

    def _noting(self, session: str, send: Send) -> Callable[[Message], Awaitable[None]]:
        """Return a channel that records which session an event belongs to, from the answer to a call."""

        async def noted(message: Message) -> None:
            if match := EVENT.search(message.get("body", b"")):
                self._sessions[match[1].decode()] = session
                while len(self._sessions) > MOST_EVENTS:
                    self._sessions.popitem(last=False)
            await send(message)

        return noted

    def _read(self, scope: Scope, path: str) -> str:
        """Return the session whose answers a request reads; if the call names no session, that of its event."""
        if path.startswith("queue/data"):
            return Request(scope).query_params.get("session_hash", "")
        event = path.rstrip("/").rpartition("/")[2]
        return self._sessions.get(event, event)

    def _is_anothers(self, session: str, scope: Scope) -> bool:
        """Return whether a session belongs to another user. Without logins, the session's own name is the secret."""
        owner = self.presence.owner_of(session)
        return scope.get("playground.name") is not None and owner not in (session, scope["playground.client"])


async def _hidden(scope: Scope, receive: Receive, send: Send) -> None:
    answer = Response('{"detail": "This is somebody else\'s work."}', 404, media_type="application/json")
    await answer(scope, receive, send)
