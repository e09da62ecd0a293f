"""A shared server and clients that do not behave: what they send are real requests, on loopback."""

import dataclasses
import types
from pathlib import Path

import httpx
import pytest
import safehttpx

from model import FOLDER
from tests.support.public import TIGHT
from tests.support.rude import file_of, listener, until
from viz.api import programs
from viz.page.build import build
from viz.serve import start
from viz.server import middleware
from viz.work.playground import Options, Playground
from viz.work.queue import Bounds
from viz.work.rates import Rate

CALL = "/gradio_api/call/tokenize"
DATA = {"data": ["abc", "", []]}


def started(lm, tmp_path_factory, patch, **options):
    """A page that strangers may visit, with what it needs to be looked into."""
    patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("files")))
    for name in ("VISITS", "COMPUTING", "COMPUTING_EACH"):  # which would end every attack here before it begins
        patch.setattr(middleware, name, Rate(1e9, 1e9))
    allowed = dataclasses.replace(TIGHT, bounds=Bounds(each=2, questions=64, share=32))
    options = Options(model=lm.id, max_tokens=64, training_minutes=0.0, allowed=allowed, public=True, **options)
    playground = Playground(options)
    playground.models.get(lm.id, lambda: lm)
    page = build(playground)
    running = start(playground, FOLDER / "static", page, host="127.0.0.1", port=None)
    client = httpx.Client(base_url=running.url, timeout=60)
    return types.SimpleNamespace(running=running, client=client, page=page, playground=playground)


@pytest.fixture(scope="module")
def served(lm, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        found = started(lm, tmp_path_factory, patch)
        yield found
        found.client.close()
        found.running.close()


@pytest.fixture
def open_loopback(monkeypatch):
    """This machine counts as a server of somebody else's, so that a fetch would reach it."""
    monkeypatch.setattr(safehttpx, "is_public_ip", lambda address: True)


def ask(served, call=DATA):
    return served.client.post(CALL, json=call)


def read(served, event: str) -> str:
    return served.client.get(f"{CALL}/{event}").text


def test_no_request_makes_the_server_fetch_or_write(served, open_loopback):
    with listener() as heard:
        file = file_of(heard.port)
        without = {name: value for name, value in file.items() if name != "meta"}  # what older versions took for a file
        odd = file | {"meta": {"_type": "gradio.FileDatas"}}
        texts = (f"http://127.0.0.1:{heard.port}/x", f"data:text/plain;base64,{'A' * 400}")
        for value, status in (
            *((each, 400) for each in (file, [file], {"values": {"of": file}})),
            *((each, 200) for each in (without, [without], odd, *texts)),
        ):
            for data in ([value, "", []], ["abc", value, []], ["abc", "", [value]]):
                answer = ask(served, {"data": data})
                assert answer.status_code == status
                if status == 200:
                    read(served, answer.json()["event_id"])
        assert heard.connections == 0
    assert not [path for path in Path(served.page.GRADIO_CACHE).rglob("*") if path.is_file()]


def test_a_polite_program_is_served_in_the_middle_of_a_flood(served):
    codes = [ask(served).status_code for _ in range(60)]
    assert set(codes) == {200}  # Gradio takes them all, and each waits for its reader
    presence = served.playground.presence
    until(lambda: len(presence._wakes) == 32)  # no more than one client's share
    assert not served.playground.queue.working and not served.playground.queue.line
    loopback = httpx.HTTPTransport(local_address="127.0.0.2")  # another client
    with httpx.Client(base_url=served.running.url, timeout=60, transport=loopback) as other:
        event = other.post(CALL, json=DATA).json()["event_id"]
        assert "event: complete" in other.get(f"{CALL}/{event}").text
    assert len(presence._wakes) == 32


def test_what_nobody_listens_for_is_dropped(served, monkeypatch):
    monkeypatch.setattr(programs, "HEARD_SECONDS", 0.1)
    event = ask(served).json()["event_id"]
    until(lambda: event not in served.playground.presence._wakes, 60)
    until(lambda: "busy" in read(served, event), 60)


def test_invented_sessions_are_kept_within_bounds(served):
    for n in range(80):
        ask(served, DATA | {"session_hash": f"invented{n}"})
    until(lambda: len(served.page.state_holder.session_data) > 10)
    assert len(served.page.state_holder.session_data) <= served.page.state_session_capacity


@pytest.mark.long
def test_a_tool_s_call_goes_to_this_machine_whatever_host_it_names(lm, tmp_path_factory, monkeypatch):
    served = started(lm, tmp_path_factory, monkeypatch, mcp=True)
    head = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    given = {"name": "tokenize", "arguments": {"prompt": "abc"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}
    try:
        with listener() as heard:
            forged = head | {"host": f"127.0.0.1:{heard.port}", "x-forwarded-host": f"127.0.0.1:{heard.port}"}
            answer = served.client.post("/gradio_api/mcp/", json=call, headers=forged)
            assert answer.status_code == 200 and '\\"text\\"' in answer.text and heard.connections == 0
            file = call | {"params": given | {"arguments": {"prompt": file_of(heard.port)}}}
            assert served.client.post("/gradio_api/mcp/", json=file, headers=head).status_code == 400
    finally:
        served.client.close()
        served.running.close()
