"""Calls that nobody's page sends: refused with one line in the log, and neither a traceback nor a path."""

import inspect
import json
import re

import gradio.routes
import pytest

from tests.support.guard import JOIN, ask, guarded
from tests.support.public import TIGHT
from tests.support.wire import listening
from viz.server import calls
from viz.server.calls import Functions
from viz.server.middleware import is_open
from viz.work.playground import Options

FILE = {"path": "http://127.0.0.1:9/x", "meta": {"_type": "gradio.FileData"}}
API = "/gradio_api/"


@pytest.fixture(scope="module")
def server(lm):
    options = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True)
    with listening(lm, options) as running:
        yield running


def send(server, path: str, body) -> int:
    whole = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.ask("POST", API + path, {"Content-Type": "application/json"}, whole).status


def number_of(server, name: str) -> int:
    return next(number for number, fn in server.page.fns.items() if fn.api_name == name)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("queue/join", {"data": [], "fn_index": 9999, "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": -1, "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": True, "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": "37", "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": 1e400, "session_hash": "a"}),
        ("queue/join", {"data": [], "session_hash": "a"}),
        ("call/nothing", {"data": []}),
        ("call/../tokenize", {"data": []}),
        ("call/", {"data": []}),
        ("call/model_info", {"data": []}),
        ("call/model_info", {"data": ["", ""]}),
        ("call/model_info", {"data": {"0": ""}}),
        ("call/model_info", {}),
        ("call/model_info", [""]),
        ("call/model_info", b'{"data":[""]'),
        ("call/model_info", b"[" * 100_000),
        ("call/model_info", b'\xff{"data":[""]}'),
        ("call/v2/nothing", {}),
        ("call/v2/model_info", {"nothing": 1}),
        ("call/v2/attention", {"prompt": "a"}),
        ("call/v2/attention", ["a"]),
        ("run/tokenize", {"data": ["a", "", []]}),
        ("api/tokenize/", {"data": ["a", "", []], "fn_index": 9999}),
        ("cancel", b"{"),
        ("cancel", []),
        ("reset", {"event_id": FILE}),
    ],
)
def test_what_is_no_call_is_refused_in_one_line(server, path, body, caplog, capfd):
    assert 400 <= send(server, path, body) < 500
    assert [record.exc_info for record in caplog.records if record.name == "playground"] in ([], [None])
    written = "".join(capfd.readouterr()) + caplog.text
    assert "Traceback" not in written and "site-packages" not in written and "File " not in written


@pytest.mark.parametrize("session", ["a" * 65, "a" * 100_000, "a b", "", "a/b", "ä", "a\n", 5, ["a"], {}])
def test_a_session_has_a_short_plain_name(server, session):
    for path in ("queue/join", "call/model_info"):
        call = {"data": [""], "fn_index": number_of(server, "model_info"), "session_hash": session}
        assert send(server, path, call) == 400


def test_a_session_has_one_name(server):
    number = number_of(server, "model_info")
    body = b'{"data":[""],"fn_index":%d,"session_hash":"a","session\\u005fhash":"b"}' % number
    assert send(server, "queue/join", body) == 400
    assert send(server, "queue/join", b'{"data":[""],"fn_index":%d,"session_hash":"\\u0061"}' % number) == 200
    assert send(server, "queue/join", {"data": [""], "fn_index": number, "session_hash": "a" * 64}) == 200


@pytest.mark.parametrize(
    "path", [f"queue/data?session_hash={each}" for each in ("a" * 65, "a%20b", "", "a&session_hash=a%2Fb")]
)
def test_an_address_names_a_session_so_too(server, path):
    assert server.ask("GET", API + path).status == 400


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"data": [FILE], "fn_index": 7}).encode(),
        json.dumps({"data": [[{"x": [FILE]}]], "fn_index": 7}).encode(),
        b'{"data":[{"path":"http://h/x","\\u006deta":{"_\\u0074ype":"gradio.\\u0046ileData"}}],"fn_index":7}',
        b'{"data":[{"path":"http://h/x","meta":{"_type":"gradio.FileData","_type":"x"}}],"fn_index":7}',
        b'{"data":[{"path":"http://h/x","meta":{},"meta":{"_type":"x"}}],"fn_index":7}',
        json.dumps({"data": [FILE], "fn_index": 7}).encode("utf-16"),
    ],
)
@pytest.mark.parametrize("path", [JOIN, *(API + each for each in ("call/tokens", "call/v2/tokens", "mcp/", "cancel"))])
def test_nothing_is_fetched_for_an_argument(body, path):
    assert ask(guarded(), path, "POST", body=(body,)).status == 400
    assert ask(guarded(Options()), path, "POST", body=(body,)).status == 400


def test_a_call_is_answered(server):
    assert send(server, "call/model_info", {"data": [""]}) == 200
    assert send(server, "call/v2/model_info", {}) == 200
    assert ask(guarded(), f"{API}mcp/", "POST", body=(b'[{"jsonrpc":"2.0"}]',)).status == 200


def test_every_route_that_takes_a_body_refuses_files(server):
    """Nothing of Gradio that is open reads a body that the guard has not read."""
    taken = re.findall(r'@(router|app)\.(?:post|put|patch|delete)\(\s*f?"([^"]+)"', inspect.getsource(gradio.routes))
    assert len(taken) > 20
    paths = {(API.rstrip("/") if by == "router" else "") + path.replace("{api_name}", "tokenize") for by, path in taken}
    opened = {path for path in paths if is_open(path)}
    assert {path.rstrip("/") for path in opened} == {
        f"{API}{each}" for each in ("queue/join", "call/tokenize", "call/v2/tokenize", "cancel", "reset")
    }
    for path in opened:
        body = json.dumps({"data": [FILE, "", []], "session_hash": "a", "x": FILE}).encode()
        assert server.ask("POST", path, {"Content-Type": "application/json"}, body).status == 400, path


def test_functions_are_those_that_the_page_lists():
    listed = [
        {"id": 3, "api_name": "a", "inputs": [1, 2], "backend_fn": True},
        {"id": 4, "api_name": "b", "inputs": [], "backend_fn": False},
    ]
    ours = Functions.of({"dependencies": listed}, {"a": {"x": True, "y": False}})
    ours.check("queue/join", {"fn_index": 3, "data": [0, 0]})
    ours.check("call/a/", {"data": [0, 0]})
    ours.check("call/v2/a", {"x": 0})
    for where, call in (
        ("queue/join", {"fn_index": 4, "data": []}),
        ("queue/join", {"fn_index": 3, "data": [0]}),
        ("call/b", {"data": []}),
        ("call/a", {"data": [0]}),
        ("call/v2/a", {"y": 0}),
        ("call/v2/a", {"x": 0, "z": 0}),
    ):
        with pytest.raises(calls.Unreadable):
            ours.check(where, call)
