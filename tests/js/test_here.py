"""The pages of a browser on their one line: as they come and close, crash, and where no worker can be shared."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.scripts import STATIC
from tests.support.visitor import SOON
from viz.server.assets import read

pytestmark = pytest.mark.browser

LINE = "/playground/here/"
STAY = """async ([path, visit]) => {
  window.lost = 0;
  (await import(path)).stay(visit, () => window.lost++);
}"""


def failure() -> type[Exception]:
    """What Playwright raises."""
    from playwright.sync_api import Error

    return Error


class Lines:
    """The lines that are open on a server."""

    def __init__(self) -> None:
        self.open: dict[int, set[str]] = {}
        self.all_end = threading.Event()

    def become(self, *expected: set[str]) -> None:
        """Wait until these lines are open and no others."""
        end = time.monotonic() + SOON / 1000
        while (now := sorted(map(sorted, self.open.values()))) != sorted(map(sorted, expected)):
            assert time.monotonic() < end, f"the lines are {now}"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def server():
    """A server of blank pages, of the scripts, and of lines."""
    assets, lines = read(STATIC), Lines()

    class Files(BaseHTTPRequestHandler):
        def do_GET(self):
            found = assets.files.get(self.path.removeprefix(f"/{assets.address('')}"))
            self.send_response(200)
            self.send_header("content-type", found.media_type if found else "text/html")
            self.end_headers()
            if not self.path.startswith(LINE):
                self.wfile.write(found.body if found else b"<!doctype html>")
                return
            lines.open[id(self)] = set(self.path.removeprefix(LINE).split(","))
            try:
                while not lines.all_end.wait(0.02):
                    self.wfile.write(b"data: ALIVE\n\n")
            except OSError:
                pass  # the browser has let it go
            finally:
                del lines.open[id(self)]

        def log_message(self, *_):
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    serving.daemon_threads = True
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}/", f"/{assets.address('page/server/here.js')}", lines
    serving.shutdown()


@pytest.fixture
def arrive(chromium, server):
    """A page of one browser that says it is there; `before`: a script that runs first."""
    url, script, _ = server
    browser = chromium.new_context()
    browser.set_default_timeout(SOON)

    def arrive(visit: str, before: str = ""):
        page = browser.new_page()
        page.add_init_script(before)
        page.goto(url)
        page.evaluate(STAY, [script, visit])
        return page

    yield arrive
    browser.close()


def test_pages_come_and_close_on_one_line(arrive, server):
    lines = server[2]
    pages = {name: arrive(name) for name in "abcdefgh"}  # more than a browser has connections
    lines.become(set("abcdefgh"))
    pages.pop("c").close()
    lines.become(set("abdefgh"))
    pages["a"].goto("about:blank")
    lines.become(set("bdefgh"))
    for page in pages.values():
        page.close()
    lines.become()


@pytest.mark.parametrize("first", [True, False])
def test_a_page_that_crashes_has_left(arrive, server, first):
    """Also the first one, whose process is the worker's, too."""
    lines = server[2]
    one, other = arrive("one"), arrive("other")
    crashes, stays = (one, "other") if first else (other, "one")
    lines.become({"one", "other"})
    with pytest.raises(failure(), match="crash"):
        crashes.goto("chrome://crash")
    lines.become({stays})
    arrive("third")
    lines.become({stays, "third"})


def test_a_line_that_ends_is_told_to_every_page(arrive, server):
    lines, pages = server[2], [arrive("a"), arrive("b")]
    lines.become({"a", "b"})
    lines.all_end.set()
    for page in pages:
        page.wait_for_function("() => window.lost > 0")
    lines.all_end.clear()
    lines.become({"a", "b"})


@pytest.mark.parametrize(
    "before",
    [
        "delete Navigator.prototype.locks",
        "navigator.locks.request = async () => { throw new TypeError('no'); }",
        "delete window.SharedWorker",
        "window.SharedWorker = class { constructor() { throw new TypeError('no'); } }",
    ],
)
def test_a_page_that_can_share_no_worker_has_a_line_of_its_own(arrive, server, before):
    lines = server[2]
    arrive("shares")
    page = arrive("alone", before)
    lines.become({"shares"}, {"alone"})
    page.close()
    lines.become({"shares"})
