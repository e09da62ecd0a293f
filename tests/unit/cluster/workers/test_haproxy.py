"""The proxy that the command writes, run by HAProxy itself, in front of small servers that say who they are."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from viz.cluster.workers import haproxy
from viz.cluster.workers.haproxy import COOKIE, HEALTH, Front, config
from viz.cluster.workers.pool import free_ports
from viz.work.rates import Rate

pytestmark = pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed.")


class Page:
    """A server that answers with its name and what it was asked; `draining` as a page process does."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port, self.draining = name, port, False
        self.left = threading.Event()  # who had asked for a stream has closed the connection
        page = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path == "/stream":
                    self.stream()
                    return
                said = json.dumps({"name": page.name, "headers": dict(self.headers.items())}).encode()
                self.send_response(404 if page.draining and self.path == HEALTH else 200)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def stream(self) -> None:
                """Send one piece, and wait for the end of the connection."""
                self.send_response(200)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"5\r\nhello\r\n")
                with contextlib.suppress(OSError):
                    self.connection.recv(1)
                page.left.set()
                self.close_connection = True

            do_GET = do_POST = answer

            def log_message(self, *said: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *said: object) -> None:
                pass  # the proxy lets go of connections as it likes

        self.server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Site:
    """Two servers and the proxy before them."""

    def __init__(self, folder, **front) -> None:
        self.port, *ports = free_ports(3)
        self.pages = [Page(haproxy.name_of(number), port) for number, port in enumerate(ports)]
        file = folder / "haproxy.cfg"
        text = config(Front("127.0.0.1", self.port, **front), ports).replace("inter 2s", "inter 100ms")
        file.write_text(text, encoding="utf-8")
        self.proxy = subprocess.Popen(["haproxy", "-db", "-f", str(file)], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.ask("/")
                break
            time.sleep(0.05)

    def ask(self, path: str, cookie: str = "", method: str = "GET", **headers: str) -> tuple[int, dict, str]:
        """Status, the answer, and the cookie that was set, as name=value."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=sent | ({"Cookie": cookie} if cookie else {}))
            answer = connection.getresponse()
            body = answer.read()
            answered = json.loads(body) if body.startswith(b"{") else {}
            return answer.status, answered, (answer.getheader("set-cookie") or "").split(";")[0]
        finally:
            connection.close()

    def end(self) -> None:
        self.proxy.kill()
        self.proxy.wait(5)
        for page in self.pages:
            with contextlib.suppress(OSError):
                page.end()


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("front", [{}, {"public": True}, {"proxies": 2, "public": True}, {"framed": True}])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_haproxy_accepts_the_configuration(tmp_path, front, host):
    (tmp_path / "haproxy.cfg").write_text(config(Front(host, 7860, **front), [7001, 7002]), encoding="utf-8")
    found = subprocess.run(["haproxy", "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "WARNING" not in found.stderr, found.stderr


def test_a_page_stays_where_it_was_opened_and_new_ones_are_spread(site):
    opened = [site.ask("/") for _ in range(6)]
    assert {answer["name"] for _, answer, _ in opened} == {"page1", "page2"}
    for _, answer, cookie in opened:
        assert cookie == f"{COOKIE}={answer['name']}"
        for path in ("/gradio_api/queue/join", "/config", "/"):
            assert site.ask(path, cookie)[1]["name"] == answer["name"]


def test_a_program_stays_at_one_process_without_a_cookie(site):
    assert len({site.ask("/gradio_api/call/attention")[1]["name"] for _ in range(6)}) == 1


def test_tries_to_log_in_are_counted_by_one_process_whatever_the_cookie_says(site):
    paths = ("/login", "/login/", "/%6cogin", "/%6Cogi%6e")
    names = {site.ask(path, f"{COOKIE}=page{at}", "POST")[1]["name"] for at in (1, 2) for path in paths}
    assert len(names) == 1


def test_where_a_process_is_gone_its_pages_are_answered_by_another(site):
    lost, other = site.pages
    cookie = f"{COOKIE}={lost.name}"
    assert site.ask("/config", cookie)[1]["name"] == lost.name
    lost.end()
    for _ in range(3):  # at once, before the proxy has seen that it is gone
        status, answer, _ = site.ask("/config", cookie)
        assert (status, answer["name"]) == (200, other.name)


def test_a_process_that_drains_keeps_its_pages_and_gets_no_new_ones(site):
    draining, other = site.pages
    cookie = f"{COOKIE}={draining.name}"
    draining.draining = True
    until = time.monotonic() + 5
    while {site.ask("/")[1]["name"] for _ in range(4)} != {other.name} and time.monotonic() < until:
        time.sleep(0.05)
    assert {site.ask("/")[1]["name"] for _ in range(6)} == {other.name}
    assert site.ask("/config", cookie)[1]["name"] == draining.name


def test_what_a_visitor_says_of_its_address_counts_for_nothing(site):
    headers = {"X_Forwarded_For": "1.2.3.4", "X_Forwarded_Host": "bank.example", "X_Forwarded_Proto": "https"}
    got = {name.lower(): value for name, value in site.ask("/", **headers)[1]["headers"].items()}
    assert (got["x-forwarded-for"], got["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert "x-forwarded-host" not in got


def test_a_closed_page_is_closed_for_its_process(site):
    with socket.create_connection(("127.0.0.1", site.port)) as page:
        page.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert page.recv(10_000)
        assert not any(each.left.is_set() for each in site.pages)
    until = time.monotonic() + 10  # without it nothing is closed before the next piece is sent
    while not any(each.left.is_set() for each in site.pages):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_line_of_a_process_is_for_the_proxy_alone(site):
    for path in (HEALTH, HEALTH.replace("health", "%68ealth"), HEALTH.replace("d/h", "d%2Fh")):
        assert site.ask(path)[0] == 404 and not site.ask(path)[1], path


def test_requests_of_one_address_are_counted_over_all_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(haproxy, "VISITS", Rate(burst=8, per_second=0.2))
    made = Site(tmp_path, public=True)
    try:
        answers = [made.ask("/", f"{COOKIE}=page{at % 2 + 1}") for at in range(16)]
        assert {answer["name"] for status, answer, _ in answers if status == 200} == {"page1", "page2"}
        assert [status for status, _, _ in answers][-4:] == [429] * 4
        assert answers[-1][1] == {"detail": "busy"}
    finally:
        made.end()
