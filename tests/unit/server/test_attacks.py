"""A shared server and clients that do not behave: what they send are real requests, on loopback."""

import dataclasses
import json
import types
from pathlib import Path

import httpx
import pytest
import safehttpx
from viz.server.framework import fair_queue, visits
from viz.server.framework.visits import Listeners

from app import ROOT
from benchmarks.load.page import LIMITS, TIMEOUT, Page
from tests.support.guard import ask, scope_of
from tests.support.models.helpers import apart
from tests.support.public import TIGHT
from tests.support.rude import beat, file_of, join, listener, until
from viz.page.build import build
from viz.serve import start
from viz.server import middleware
from viz.work.playground import Options, Playground
from viz.work.presence import Presence
from viz.work.rates import Rate


@pytest.fixture(scope="module")
def served(lm, tmp_path_factory):
    """A page that strangers may visit, with what it needs to be looked into."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("files")))
    for name in ("VISITS", "COMPUTING", "COMPUTING_EACH"):  # which would end every attack here before it begins
        patch.setattr(middleware, name, Rate(1e9, 1e9))
    allowed = dataclasses.replace(TIGHT, sessions=16, queue=64, share=32)
    playground = Playground(Options(model=lm.id, max_tokens=64, training_minutes=0.0, allowed=allowed, public=True))
    playground.models.get(lm.id, lambda: lm)
    page = build(playground)
    start(playground, ROOT / "static", page, host="127.0.0.1", port=None)
    with httpx.Client(base_url=page.local_url, timeout=60) as client:
        yield types.SimpleNamespace(url=page.local_url, port=page.server_port, client=client, page=page, all=playground)
    page.close()
    patch.undo()


@pytest.fixture
def open_loopback(monkeypatch):
    """This machine counts as a server of somebody else's, so that a fetch would reach it."""
    monkeypatch.setattr(safehttpx, "is_public_ip", lambda address: True)


def test_no_argument_of_any_function_makes_the_server_fetch(served, open_loopback):
    state = served.page.state_holder["fetching"]
    with listener() as heard:
        for function in served.page.fns.values():
            file = file_of(heard.port)
            for value in (file, [file], {"values": {"of": file}}):
                inputs = [value for _ in function.inputs]
                try:
                    apart(served.page.preprocess_data(function, inputs, state))
                except Exception as error:  # a text box says that this is no text
                    assert "FileData" not in type(error).__name__
        assert heard.connections == 0


def test_no_request_makes_the_server_fetch_or_write(served, open_loopback):
    with listener() as heard:
        file = file_of(heard.port)
        for number, function in list(served.page.fns.items())[::7]:
            join(served.client, number, [file for _ in function.inputs])
        answer = served.client.post("/gradio_api/call/tokenize", json={"data": [file, ""]})
        if answer.status_code == 200:
            served.client.get(f"/gradio_api/call/tokenize/{answer.json()['event_id']}")
        until(lambda: not any(served.page._queue.active_jobs))
        assert heard.connections == 0
    assert not [path for path in Path(served.page.GRADIO_CACHE).rglob("*") if path.is_file()]


def test_lines_of_unknown_visits_come_and_go_for_nothing(served, monkeypatch):
    left = []
    monkeypatch.setattr(served.all.presence, "leaving", left.append)
    before = set(served.page.state_holder.session_data)
    lines = [beat(served.port, f"nobody-{n}") for n in range(60)]
    assert served.all.presence.is_here("nobody-59")
    for line in lines:
        line.close()
    until(lambda: not any(served.all.presence.is_here(f"nobody-{n}") for n in range(60)))
    assert set(served.page.state_holder.session_data) == before and left == []
    _ = served.page.state_holder["somebody"]
    beat(served.port, "somebody").close()
    until(lambda: left == ["somebody"])


@pytest.mark.parametrize("visit", ["a" * 65, "%00", "a%2Fb", "..%2f..", "%F0%9F%98%80", "a b"])
def test_no_line_for_what_is_no_name_of_a_visit(served, visit):
    assert served.client.get(f"/gradio_api/heartbeat/{visit}").status_code in (400, 404)


def test_a_new_visit_costs_no_description_of_the_page(served):
    visit = served.page.state_holder["cheap"]
    assert visit.config_values == {} and type(visit) is visits.Visit


def _flood(served, count):
    """Questions of invented visits for the whole page, whose answers nobody comes for."""
    config = served.client.get("/config").json()
    prompt = next(each["id"] for each in config["components"] if each["props"].get("elem_id") == "prompt")
    refresh = next(each for each in config["dependencies"] if [prompt, "change"] in each["targets"])
    values = {each["id"]: each["props"].get("value") for each in config["components"]}
    data = [values.get(number) for number in refresh["inputs"]]
    return [join(served.client, refresh["id"], data).status_code for _ in range(count)]


def test_answers_that_nobody_reads_do_not_pile_up(served):
    queue, codes = served.page._queue, _flood(served, 48)
    assert codes.count(200) <= 36 and 503 in codes  # the share of one address, and those at work
    until(lambda: not any(queue.active_jobs))
    unread = [box for box in queue.pending_messages_per_session.values() if box.bytes > fair_queue.SMALL]
    assert 0 < len(unread) <= fair_queue.UNHEARD and len(queue) >= 20  # the others wait for somebody who listens


def test_a_polite_page_is_served_in_the_middle_of_a_flood(served, monkeypatch):
    queue = served.page._queue
    _flood(served, 48)
    monkeypatch.setattr(fair_queue, "MOMENT", 0.0)  # has passed

    async def visit():
        async with httpx.AsyncClient(limits=LIMITS, timeout=TIMEOUT) as client:
            page = Page(client, served.url)
            await page.open()
            answers = [await page.ask(each) for each in page.loading]
            page.set("prompt", "hello")
            answers.append(await page.ask(page.refresh))
            kept = page.session in served.page.state_holder.session_data
            await page.close()
            return answers, kept

    answers, kept = apart(visit())
    assert kept and all(answer.data or answer.changed for answer in answers[-1:])
    assert len(queue) > 0  # the flood is still waiting


def test_invented_visits_push_no_open_page_out(served):
    line = beat(served.port, "stays")
    _ = served.page.state_holder["stays"]
    for _ in range(40):
        join(served.client, 0, [])
    assert "stays" in served.page.state_holder.session_data
    assert len(served.page.state_holder.session_data) <= 16
    line.close()


def test_what_nobody_listens_for_is_dropped(served, monkeypatch):
    monkeypatch.setattr(fair_queue, "ASKED_SECONDS", 0.0)
    monkeypatch.setattr(fair_queue, "KEPT_SECONDS", 0.0)
    until(lambda: len(served.page._queue) == 0 and not served.page._queue.pending_messages_per_session, 60)


# --- whose work it is -----------------------------------------------------------------------------


def listening(presence, auth=lambda name, password: True):
    """The layer before an app of visitors with names, one question of "ann" at work."""
    event = types.SimpleNamespace(session_hash="anns")
    queue = types.SimpleNamespace(event_ids_to_events={"e1": event}, pending_event_ids_session={"anns": {"e1"}})
    app = types.SimpleNamespace(auth=auth, get_blocks=lambda: types.SimpleNamespace(_queue=queue))
    presence.belongs("anns", "ann")
    seen = []

    async def inner(scope, receive, send):
        seen.append(presence.is_heard("anns"))
        message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})

    return Listeners(inner, presence), app, seen


READING = [("/gradio_api/queue/data", b"session_hash=anns"), ("/gradio_api/call/tokenize/e1", b"")]


@pytest.mark.parametrize(("path", "query"), READING)
def test_answers_are_read_by_whose_they_are(path, query):
    presence = Presence()
    layer, app, seen = listening(presence)
    own = {"app": app, "query_string": query, "playground.client": "ann"}
    assert ask(layer, path, **own).status == 200 and seen == [True] and not presence.is_heard("anns")
    assert ask(layer, path, **own | {"playground.client": "bob"}).status == 404 and len(seen) == 1
    layer, app, seen = listening(presence, auth=None)  # without names a visit's own is the secret
    assert ask(layer, path, **own | {"app": app, "playground.client": "10.0.0.9"}).status == 200


@pytest.mark.parametrize(
    "body", [{"session_hash": "anns", "fn_index": 1, "event_id": "x"}, {"session_hash": "b", "event_id": "e1"}]
)
def test_work_is_cancelled_by_whose_it_is(body):
    presence = Presence()
    layer, app, seen = listening(presence)
    sent = json.dumps(body).encode()
    more = {"app": app, "body": (sent,), "method": "POST"}
    answer = ask(layer, "/gradio_api/cancel", **more, **{"playground.client": "ann"})
    assert answer.status == 200 and answer.text.encode() == sent and seen == [False]
    assert ask(layer, "/gradio_api/cancel", **more, **{"playground.client": "bob"}).status == 404
    for junk in (b"", b"[]", b"{", b"[" * 50_000):
        again = ask(layer, "/gradio_api/cancel", **more | {"body": (junk,)}, **{"playground.client": "bob"})
        assert again.status == 200  # what it means is for Gradio to say


def test_a_scope_without_a_client_is_nobodys():
    presence = Presence()
    layer, app, _ = listening(presence)
    scope = scope_of("/gradio_api/queue/data", app=app, query_string=b"session_hash=anns")
    assert layer._is_anothers("anns", scope) and not layer._is_anothers("new", scope)
