"""Requests of other websites, preflights, and headers that only a proxy may write, to a server that listens."""

import dataclasses

import pytest

from tests.support.guard import JOIN, OURS, ask, echo, guarded, scope_of
from tests.support.models.helpers import apart
from tests.support.public import TIGHT
from tests.support.wire import listening
from viz.server.clients import as_asked
from viz.work.playground import Options

PUBLIC = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True)
CALL = "/gradio_api/call/model_info"


@pytest.fixture(scope="module", params=["public", "private"])
def server(lm, request):
    options = PUBLIC if request.param == "public" else dataclasses.replace(PUBLIC, public=False)
    with listening(lm, options) as running:
        yield running


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://localhost:3000", "http://127.0.0.1:1", "https://127.0.0.1"]
)
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS", "DELETE"])
def test_a_foreign_origin_is_refused(server, origin, method):
    path = "/config" if method == "GET" else CALL
    preflight = {"Access-Control-Request-Method": "POST"} if method == "OPTIONS" else {}
    answer = server.ask(method, path, {"Origin": origin, **preflight})
    assert answer.status == 403
    assert not [name for name in answer.names if name.startswith("access-control")]


def test_this_server_s_own_pages_are_answered(server):
    for origin in (f"http://{server.host}", f"HTTP://{server.host}"):
        answer = server.ask("GET", "/config", {"Origin": origin})
        assert answer.status == 200 and not [name for name in answer.names if name.startswith("access-control")]
        assert server.post(CALL, {"data": [""]}, {"Origin": origin}).status == 200
    preflight = {"Origin": f"http://{server.host}", "Access-Control-Request-Method": "POST"}
    answer = server.ask("OPTIONS", CALL, preflight)  # Gradio says yes to it, and nobody hears that
    assert not [name for name in answer.names if name.startswith("access-control")]
    assert "content-security-policy" in server.ask("OPTIONS", CALL).names


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_neighboring_website_asks_for_is_refused(server, site):
    asked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert server.ask("GET", "/config", asked).status == 403
    assert server.ask("GET", "/", asked | {"Sec-Fetch-Mode": "navigate"}).status == 200  # a link
    sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Origin": "https://evil.example"}
    assert server.form("/login", sent, username="a", password="b").status == 403  # a form
    assert server.form("/login", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}, username="a").status == 403


def test_what_only_a_proxy_may_say_counts_for_nothing(server):
    forged = {
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/evil",
        "X-Gradio-Server": "http://evil.example",
        "Forwarded": "host=evil.example",
    }
    for path in ("/", "/config", "/gradio_api/info"):
        answer = server.ask("GET", path, forged)
        assert answer.status == 200 and b"evil" not in answer.body
        assert "evil" not in answer.header("location")


@pytest.mark.parametrize(
    ("options", "headers", "status"),
    [
        ({}, {"host": "a.example", "origin": "https://a.example"}, 200),  # TLS ends at a proxy
        ({}, {"host": "a.example:443", "origin": "https://a.example"}, 200),
        ({}, {"host": "a.example:80", "origin": "https://a.example"}, 403),
        ({}, {"host": "a.example:7860", "origin": "http://a.example"}, 403),
        ({}, {"host": "a.example", "origin": "ftp://a.example"}, 403),
        ({}, {"host": "a.example", "origin": "http://a.example:x"}, 403),
        ({"hosts": ("B.example",)}, {"host": "a.example:7860", "origin": "https://b.example"}, 200),
        ({"hosts": ("B.example",)}, {"host": "a.example:7860", "origin": "http://b.example:7860"}, 200),
        ({"hosts": ("B.example",)}, {"host": "a.example:7860", "origin": "http://b.example:3000"}, 403),
        ({"embed": ("https://b.example",)}, {"host": "a.example", "origin": "https://b.example"}, 200),
        ({"embed": ("https://*.b.example",)}, {"host": "a.example", "origin": "https://c.b.example"}, 200),
        ({"embed": ("https://*.b.example",)}, {"host": "a.example", "origin": "https://b.example"}, 403),
        ({}, {"host": "a", "x-forwarded-host": "b.example", "origin": "https://b.example"}, 403),
        ({"proxies": 1}, {"host": "a", "x-forwarded-host": "b.example", "origin": "https://b.example"}, 200),
        ({"proxies": 1}, {"host": "a", "x-forwarded-host": "b.example", "origin": "https://c.example"}, 403),
    ],
)
def test_which_origins_are_this_server(options, headers, status):
    ours = guarded(dataclasses.replace(PUBLIC, **options))
    assert ask(ours, JOIN, "POST", headers=headers).status == status


def test_two_origins_are_one_too_many(server):
    own = ("Origin", f"http://{server.host}")
    assert server.ask("GET", "/config", [own]).status == 200
    assert server.ask("GET", "/config", [own, ("Origin", "http://evil.example")]).status == 403


def test_the_scheme_is_the_proxy_s_to_say():
    said = OURS | {"x-forwarded-proto": "http, https", "x-forwarded-host": "b", "x-gradio-server": "http://evil"}
    direct, proxied = (as_asked(scope_of("/", headers=said, scheme="http"), proxies) for proxies in (0, 1))
    assert (direct["scheme"], proxied["scheme"]) == ("http", "https")
    assert direct["headers"] == scope_of("/")["headers"] and len(proxied["headers"]) == 3
    odd = as_asked(scope_of("/", headers=OURS | {"x-forwarded-proto": "ws"}, scheme="http"), 1)
    assert odd["scheme"] == "http"


def test_no_connection_becomes_a_socket():
    sent = []

    async def send(message):
        sent.append(message)

    apart(guarded(app=echo)({"type": "websocket", "path": "/"}, None, send))
    assert sent == [{"type": "websocket.close"}]


def test_nothing_is_told_to_other_websites_whoever_says_so():
    async def open_to_all(scope, receive, send):
        told = [(b"Access-Control-Allow-Origin", b"*"), (b"access-control-allow-origin", b"a"), (b"x-own", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": told})
        await send({"type": "http.response.body", "body": b""})

    names = ask(guarded(app=open_to_all)).headers
    assert "x-own" in names and not [name for name in names if name.lower().startswith("access-control")]
