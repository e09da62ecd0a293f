"""What a process says of itself is for its own machine."""

import json
import threading

import pytest
from starlette.requests import Request

from viz.server.clients import as_asked
from viz.server.guard.health import Health, is_local
from viz.work.playground import Options, Playground


def request(host: str | None, **headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "client": None if host is None else (host, 1), "headers": named})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_local_but_not_through_a_proxy(host):
    assert is_local(request(host))
    assert not is_local(request(host, x_forwarded_for="127.0.0.1"))


@pytest.mark.parametrize("proxies", [0, 1])
def test_a_proxy_that_is_not_believed_is_one_all_the_same(proxies):
    for headers, local in (({}, True), ({"x_forwarded_for": "127.0.0.1"}, False)):
        assert is_local(Request(as_asked(request("127.0.0.1", **headers).scope, proxies))) == local


@pytest.mark.parametrize("host", ["192.168.0.7", "8.8.8.8", "::2", "::ffff:8.8.8.8", "localhost", "", None])
def test_others_are_not(host):
    assert not is_local(request(host))


@pytest.mark.parametrize("public", [True, False])
def test_the_report_is_told_to_nobody_else(public):
    health = Health(Playground(Options(public=public)), threading.Event())
    answer = health.answer(request("127.0.0.1"))
    assert answer.status_code == 200 and json.loads(answer.body) | {
        "state": "ready",
        "engine": "reachable",
    } == json.loads(answer.body)
    other = health.answer(request("10.0.0.3"))
    assert other.status_code == 404 and other.body == b""
    health.draining.set()
    answer = health.answer(request("127.0.0.1"))
    assert answer.status_code == 404 and json.loads(answer.body)["state"] == "draining"


def test_a_cluster_that_is_lost_is_reported(monkeypatch):
    playground = Playground(Options())
    monkeypatch.setattr(playground.engine, "is_reachable", lambda: False)
    answer = Health(playground, threading.Event()).answer(request("127.0.0.1"))
    assert answer.status_code == 200, "its pages stay, and say so themselves"
    assert json.loads(answer.body)["engine"] == "lost"
