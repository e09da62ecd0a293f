"""Clients that keep a server waiting, and many of them: real connections to a server without a page."""

import contextlib
import logging
import resource
import socket
import threading
import time

import pytest
import uvicorn

from tests.support.public import TIGHT
from tests.support.wire import listening
from viz.server import protocol
from viz.server.protocol import Bounded, Crowd, bounded, crowd_of, files_allowed, tell_few
from viz.server.quiet import Few
from viz.work.playground import Options

LARGE = 4 << 20  # bytes; more than the system takes over from a process
SOME = 60_000  # more than it takes over here, where it was asked to take little, and less than a connection holds back
HEAD = b"GET %s HTTP/1.1\r\nHost: a\r\n"


async def app(scope, receive, send):
    """Answers at once, by a lot under /large, and to POST before its body has come."""
    size = {"/large": LARGE, "/some": SOME}.get(scope["path"], 2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.fixture(scope="module")
def server():
    crowd = Crowd(total=6, each=4)
    config = uvicorn.Config(app, port=0, log_level="warning", http=bounded(crowd), lifespan="off", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until(lambda: running.started)
    running.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    running.crowd = crowd
    running.port = running.servers[0].sockets[0].getsockname()[1]
    yield running
    running.should_exit = True
    thread.join(20)


def until(true):
    """Wait for something that is to become true."""
    for _ in range(2000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")


@contextlib.contextmanager
def connected(server, many=1):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.socket()) for _ in range(many)]
        for connection in made:
            connection.settimeout(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
        yield made
    until(lambda: server.crowd.count == 0)


def is_closed(connection) -> bool:
    """Whether the server ends a connection, after whatever it sends before."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("sent", [b"", b"G", HEAD % b"/" + b"X-Slow: ", b"\r\n\r\n"])
def test_the_head_of_a_request_has_its_time(server, monkeypatch, sent):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
    with connected(server) as (connection,):
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_head_that_trickles_in_has_no_more_time(server, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    with connected(server) as (connection,), pytest.raises(OSError):
        connection.sendall(HEAD % b"/")
        for _ in range(1000):
            connection.sendall(b"X: y\r\n")
            time.sleep(0.01)


def test_a_second_request_has_its_time_too(server, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
    with connected(server) as (connection,):
        connection.sendall(HEAD % b"/" + b"\r\n")
        assert b"200 OK" in connection.recv(1000)
        connection.sendall(b"GET / HT")
        assert is_closed(connection)


def test_a_body_that_nobody_waits_for_has_its_time(server, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    with connected(server) as (connection,), pytest.raises(OSError):
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b"x")
            time.sleep(0.01)


@pytest.mark.parametrize("path", [b"large", b"some"])
@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
def test_a_client_that_does_not_read_is_given_up(server, monkeypatch, path, more):
    monkeypatch.setattr(protocol, "STALL_SECONDS", 0.05)
    with connected(server) as (connection,):
        connection.sendall(HEAD % b"/%s" % path + more + b"\r\n")
        assert connection.recv(20).startswith(b"HTTP/1.1 200")  # and no more
        until(lambda: server.crowd.count == 0)


def test_a_client_that_reads_slowly_is_served(server, monkeypatch):
    monkeypatch.setattr(protocol, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)  # nor does that end an answer
    with connected(server) as (connection,):
        connection.sendall(HEAD % b"/large" + b"Connection: close\r\n\r\n")
        many = pieces = 0
        while piece := connection.recv(1 << 18):
            many, pieces = many + len(piece), pieces + 1
            time.sleep(0.02 if pieces < 60 else 0)
        assert many > LARGE


def test_connections_of_one_address_are_bounded(server):
    with connected(server, 4) as held:
        for connection in held:
            connection.sendall(HEAD % b"/large" + b"\r\n")
            assert connection.recv(20).startswith(b"HTTP/1.1 200")  # an answer that is under way
        with socket.create_connection(("127.0.0.1", server.port), 10) as extra:
            assert is_closed(extra)
        assert server.crowd.count == 4
        assert held[0].recv(1000)  # those that are there go on
    with connected(server) as (connection,):  # and what was closed makes room
        connection.sendall(HEAD % b"/" + b"\r\n")
        assert b"200 OK" in connection.recv(1000)


def test_who_says_nothing_gives_way_to_a_neighbor(server):
    with connected(server, 4) as held:
        held[0].sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        until(lambda: len(server.crowd.silent) == 4)
        with socket.create_connection(("127.0.0.1", server.port), 10) as polite:
            polite.sendall(HEAD % b"/" + b"\r\n")
            assert b"200 OK" in polite.recv(1000)
            assert is_closed(held[0])  # the one that was waited for the longest
            assert server.crowd.count == 4
            held[1].sendall(HEAD % b"/" + b"\r\n")
            assert b"200 OK" in held[1].recv(1000)  # the others are not


def test_connections_are_bounded_in_all():
    crowd = Crowd(total=3, each=2)
    assert [crowd.enter(each) for each in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    crowd.leave("a")
    assert crowd.enter("c") and not crowd.enter("d") and dict(crowd.by_address) == {"a": 1, "b": 1, "c": 1}
    free = Crowd(total=2)
    assert [free.enter("proxy") for _ in range(3)] == [True, True, False]


def test_an_upgrade_is_a_request_like_any_other(server):
    asked = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    with connected(server) as (connection,):
        connection.sendall(HEAD % b"/" + asked)
        assert b"200 OK" in connection.recv(1000)


def test_how_many_there_may_be():
    assert crowd_of(public=True, proxies=0, files=20_000).each == protocol.EACH
    assert crowd_of(public=True, proxies=1, files=20_000).each is None  # all come from the proxy
    assert crowd_of(public=False, proxies=0, files=20_000).each is None
    assert crowd_of(public=True, proxies=0, files=20_000).total == 20_000 - protocol.RESERVE
    told = []
    for files in (1024, 256, 20_000):
        tell_few(crowd_of(public=True, proxies=0, files=files), told.append)
    assert len(told) == 2 and "takes 256 connections at once" in told[0] and "ulimit -n" in told[0]


def test_as_many_files_as_the_system_allows(monkeypatch):
    now = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda which: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: now.__setitem__(0, limits[0]))
    assert files_allowed() == 4096 and now == [4096, 4096]
    now[:] = [1024, 4096]

    def refused(*_):
        raise ValueError

    monkeypatch.setattr(resource, "setrlimit", refused)
    assert files_allowed() == 1024
    now[:] = [resource.RLIM_INFINITY] * 2
    assert files_allowed() == 1 << 20


# --- the page's own server ---


def test_the_page_is_served_so(lm, monkeypatch):
    options = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True)
    with listening(lm, options) as running:
        config = running.running.server.config
        assert issubclass(config.http_protocol_class, Bounded) and config.http_protocol_class.crowd.each
        assert running.ask("GET", "/", {"X-Forwarded-Proto": "https", "X-Forwarded-For": "1.2.3.4"}).status == 200
        assert not config.proxy_headers and b"https://127" not in running.ask("GET", "/config").body
        handlers = (logging.lastResort, *logging.getLogger("uvicorn").handlers)
        assert all(any(isinstance(each, Few) for each in handler.filters) for handler in handlers)
        monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
        host, port = running.host.split(":")
        with socket.create_connection((host, int(port)), 30) as slow:
            slow.sendall(b"GET / HT")
            assert is_closed(slow)
