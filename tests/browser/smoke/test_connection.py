"""A page whose server is killed, comes back, and is too busy: one notice, nothing lost, and it goes on by itself."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.conftest import FIRST, blank_page
from tests.support.elsewhere import ROOT
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser

NOTICE = ".pg-connection:not(.pg-running)"
SERVER = "JSON.parse(document.getElementById('pg-connection-words').content).server"


@contextlib.contextmanager
def slow(url: str, running: dict):
    """A server before another one: its answer first says how far a run is, and goes on once the event is set."""
    go_on = threading.Event()

    class Before(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/x-ndjson")
            self.end_headers()
            self.wfile.write(f"{json.dumps({'running': running})}\n".encode())
            self.wfile.flush()
            go_on.wait(SOON / 1000)
            asked = urllib.request.Request(f"{url}playground/view", body, {"content-type": "application/json"})
            with urllib.request.urlopen(asked, timeout=SOON / 1000) as answer:
                self.wfile.write(answer.read())

        def log_message(self, *_):
            pass

    before = ThreadingHTTPServer(("127.0.0.1", 0), Before)
    threading.Thread(target=before.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{before.server_port}/playground/view", go_on
    finally:
        go_on.set()
        before.shutdown()


@pytest.fixture
def server():
    """Start a shared server on one port, again and again; the function returns its process once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "app.py", "--offline", "--public", "--port", str(port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        assert process.stdout.readline().startswith("Attention playground:")
        return process

    start.url = f"http://127.0.0.1:{port}/"
    yield start
    for process in running:
        process.kill()
        process.wait(timeout=20)


def test_a_killed_server_is_told_once_and_the_page_comes_back_with_it(server, profile):
    process, page, errors = server(), blank_page(profile), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    answer = page.goto(server.url)
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    page.locator(FIRST).wait_for(timeout=SOON)
    prompt, notice, chips = page.locator("#prompt textarea"), page.locator(NOTICE), page.locator("#pg-tokens .pg-chip")

    # Too many questions: the page waits as long as it is told, says so, and asks again by itself.
    refused = []

    def busy(route):
        if len(refused) == 2:
            return route.continue_()
        refused.append(route.request.url)
        return route.fulfill(status=429, headers={"retry-after": "1"}, json={"detail": "busy"})

    page.route("**/playground/view*", busy)
    prompt.fill("The dog sat")
    expect(notice).to_contain_text("The server is busy.", timeout=SOON)
    expect(chips).to_have_count(3, timeout=SOON)
    expect(notice).to_be_hidden()
    page.unroute("**/playground/view*")
    assert len(refused) == 2 and page.locator(".toast-body").count() == 0

    # An answer that takes long: how far the prompt is.
    with slow(server.url, {"done": 7, "total": 32, "seconds": 14.2}) as (address, go_on):
        page.route("**/playground/view*", lambda route: route.continue_(url=address))
        prompt.fill("The dog ran")
        bar = page.locator(".pg-running")
        expect(bar).to_contain_text("layer 8 of 32.About 51 s left.", timeout=SOON)
        expect(bar).to_be_in_viewport()
        expect(bar.locator("progress")).to_have_js_property("value", 7 / 32)
        go_on.set()
        expect(bar).to_be_hidden(timeout=SOON)
        expect(chips.last).to_have_text("·ran")
        page.unroute("**/playground/view*")
    # Nothing of the page is against its own policy; the browser itself tells of the answers that were none.
    assert [error for error in errors if "429" not in error] == []

    before = page.evaluate(SERVER)
    process.send_signal(signal.SIGKILL)
    expect(notice).to_contain_text("The server cannot be reached.", timeout=SOON)
    expect(notice).to_be_in_viewport()
    open_tab(page, "Anatomy")  # never opened: it says why it is empty
    said = "getComputedStyle(document.querySelector('.tabitem:not([data-begun])'), '::before').content"
    page.wait_for_function(f"() => {said}.includes('as soon as the server can be reached')", timeout=SOON)
    assert page.locator(".tabitem:not([data-begun])").first.bounding_box()["height"] < 120
    open_tab(page, "Start")
    prompt.fill("The dog sat on the mat")
    page.get_by_role("button", name="Try now").click()
    expect(chips).to_have_count(3)  # what was shown stays
    assert page.locator(".toast-body").count() == 0 and prompt.is_enabled()
    errors.clear()

    server()
    page.wait_for_function(
        f"() => document.getElementById('pg-connection-words') && {SERVER} !== '{before}'", timeout=SOON
    )
    page.locator(FIRST).wait_for(timeout=SOON)
    expect(prompt).to_have_value("The dog sat on the mat", timeout=SOON)
    expect(chips).to_have_count(6, timeout=SOON)
    expect(notice).to_have_count(0)
    assert all("ERR_CONNECTION_REFUSED" in error for error in errors)  # of the attempts before
    page.close()


def test_a_browser_has_room_for_many_pages(open_page, tiny_app):
    """A browser has six connections to a server, whatever its number of pages."""
    pages = [open_page(url=tiny_app) for _ in range(8)]
    for page in pages[::7]:
        prompt, chips = page.locator("#prompt textarea"), page.locator("#pg-tokens .pg-chip")
        before = chips.count()
        prompt.fill(prompt.input_value() + " again and again")
        page.wait_for_function("before => document.querySelectorAll('#pg-tokens .pg-chip').length > before", arg=before)
