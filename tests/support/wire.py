"""A server that listens, with the page as it is launched, and requests to it header by header."""

import contextlib
import http.client
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.models.helpers import serving
from viz.page.build import build
from viz.serve import start
from viz.server.serving import RunningServer
from viz.work.playground import Options, Playground

STATIC = Path(__file__).parents[2] / "static"


@dataclass(frozen=True)
class Reply:
    """What came back; the names of headers are in small letters."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return ", ".join(value for each, value in self.headers if each == name)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.headers}


@dataclass(frozen=True)
class Server:
    """Where it listens, and what is behind it."""

    running: RunningServer
    page: object
    playground: Playground
    host: str

    def ask(self, method: str, path: str, headers=(), body: bytes | None = None) -> Reply:
        """Send a request with these headers, pairs or a dictionary, and Host where they name none."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        if not any(name.lower() == "host" for name, _ in pairs):
            pairs.insert(0, ("Host", self.host))
        if body is not None:
            pairs.append(("Content-Length", str(len(body))))
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in pairs:
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            found = tuple((name.lower(), value) for name, value in answer.getheaders())
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def post(self, path: str, value: object, headers=()) -> Reply:
        """Send JSON."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        body = json.dumps(value).encode()
        return self.ask("POST", path, [("Content-Type", "application/json"), *pairs], body)

    def form(self, path: str, headers=(), **fields: str) -> Reply:
        """Send a form."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        kind = ("Content-Type", "application/x-www-form-urlencoded")
        return self.ask("POST", path, [kind, *pairs], urllib.parse.urlencode(fields).encode())

    def log_in(self, name: str, password: str, headers=()) -> Reply:
        """Send the form of the login."""
        return self.form("/login", headers, username=name, password=password)


def cookie(reply: Reply) -> dict[str, str]:
    """The header that a browser sends from then on."""
    return {"Cookie": reply.header("set-cookie").partition(";")[0]}


@contextlib.contextmanager
def listening(lm, options: Options) -> Iterator[Server]:
    """The page as serve.launch starts it, on a free port."""
    playground = serving(lm, options)
    page = build(playground)
    running = start(playground, STATIC, page, host="127.0.0.1", port=None)
    try:
        yield Server(running, page, playground, running.url.removeprefix("http://").rstrip("/"))
    finally:
        running.close()
        playground.workshop.close()
