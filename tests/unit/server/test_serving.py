"""The server below the page: the address it takes, and that it stops while pages are open."""

import contextlib
import socket
import time

import pytest

from model.errors import InputError
from tests.support.public import TIGHT
from tests.support.rude import beat
from tests.support.wire import listening
from viz.server import serving
from viz.server.protocol import Crowd
from viz.server.serving import RunningServer, taken
from viz.work import addresses
from viz.work.playground import Options


def test_without_a_port_the_first_free_one_is_taken(monkeypatch):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        monkeypatch.setattr(serving, "FIRST", first)
        found = stack.enter_context(taken("127.0.0.1", None)).getsockname()
        assert found[0] == "127.0.0.1" and first < found[1] < first + serving.PORTS
        again = stack.enter_context(taken("127.0.0.1", None)).getsockname()[1]
        assert again > found[1]
        monkeypatch.setattr(serving, "PORTS", 1)
        with pytest.raises(InputError, match="cannot listen at this address"):
            taken("127.0.0.1", None)


def test_an_address_that_is_taken_or_none_of_this_machine_is_told():
    with taken("127.0.0.1", 0) as one, pytest.raises(InputError, match=r"127\.0\.0\.1:"):
        taken("127.0.0.1", one.getsockname()[1])
    for host in ("192.0.2.1", "no.such.host.invalid"):
        with pytest.raises(InputError, match="cannot listen at this address"):
            taken(host, 0)


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::1", "[::1]"), ("[::1]", "[::1]")]
)
def test_the_addresses_that_are_printed_can_be_opened(host, url, monkeypatch):
    monkeypatch.setattr(addresses, "network_addresses", lambda **_: ("192.0.2.7", "198.51.100.2"))

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})

    place = taken(host, 0)
    running = RunningServer(app, place, host, Crowd(total=8))
    try:
        assert running.url == f"http://{url}:{running.port}/"
        others = (f"http://192.0.2.7:{running.port}/", f"http://198.51.100.2:{running.port}/")
        assert running.network_urls == (others if host == "0.0.0.0" else ())
        socket.create_connection((url.strip("[]"), running.port), 5).close()
    finally:
        running.close()
    with pytest.raises(OSError):
        socket.create_connection((url.strip("[]"), running.port), 5)


def test_a_server_that_cannot_start_says_so(caplog):
    async def broken(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    with taken("127.0.0.1", 0) as place, pytest.raises(RuntimeError, match="did not start"):
        RunningServer(broken, place, "127.0.0.1", Crowd(total=8))


def test_a_server_that_stops_does_not_wait_for_open_pages(lm, caplog):
    options = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT)
    with listening(lm, options) as server:
        line = beat(server.running.port, "a")
        began = time.monotonic()
        server.running.close()
        assert time.monotonic() - began < 2
        line.settimeout(1)
        with contextlib.suppress(ConnectionResetError):
            while line.recv(4096):
                pass
        line.close()
        server.running.wait()
    assert [each.getMessage() for each in caplog.records if each.name.startswith("uvicorn")] == []
