"""The guard before the page without a network: a request in pieces, and the answer to it."""

from tests.support.models.helpers import apart
from viz.server.calls import Functions
from viz.server.guard.door import Door
from viz.server.guard.tokens import Tokens
from viz.server.middleware import Guard
from viz.work.limits import PUBLIC
from viz.work.playground import Options

JOIN = "/gradio_api/queue/join"
BODY = "/playground/lessons/tokens"  # takes a body, too, which nobody looks into here
OURS = {"host": "127.0.0.1:7860"}
SHARED = Options(public=True, allowed=PUBLIC)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Answer:
    """What a client is sent, in the pieces in which it is sent."""

    def __init__(self, messages):
        start, *rest = messages
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.pieces = [message.get("body", b"") for message in rest]

    @property
    def text(self):
        return b"".join(self.pieces).decode()


def scope_of(path, method="GET", headers=OURS, **more):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "path": path,
        "method": method,
        "headers": pairs,
        "query_string": b"",
        "root_path": "",
        "client": ("10.0.0.1", 5),
    } | more


def ask(guarded, path="/", method="GET", *, headers=OURS, body=(b"",), **more):
    """Send a request, its body in pieces, and take the answer."""
    sent, left = [], list(body)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    apart(guarded(scope_of(path, method, headers, **more), receive, send))
    return Answer(sent)


async def echo(scope, receive, send):
    """An app that answers with what it was sent."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


FUNCTIONS = Functions({7: ("tokens", 1)}, {"tokens": {"prompt": True}})
TOKENS = Tokens(bytes(32))
INSIDE = {"cookie": f"a=b; {TOKENS.cookie}={TOKENS.new('ann')}"}  # who has logged in sends it


async def anybody(name, password):
    return password == "secret"


def guarded(options=SHARED, app=echo, **changes):
    door = Door(options, TOKENS, anybody) if options.login else None
    return Guard(app, options, FUNCTIONS, door, **changes)
