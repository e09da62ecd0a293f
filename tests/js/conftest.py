"""A blank page that imports the scripts from where the app serves them."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.light import CHROMIUM
from tests.support.scripts import STATIC
from tests.support.visitor import SOON
from viz.server.assets import asset, read

LATE = asset("late.js", b"export default { there: true };")  # not there when it is asked for first


@pytest.fixture(scope="session")
def address():
    """Where the scripts are served, beside one page that is blank."""
    assets = read(STATIC)

    class Files(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix(f"/{assets.address('')}")
            found = LATE if name.startswith("vendor/late.js?") else assets.files.get(name)
            self.send_response(200 if found or self.path == "/" else 404)
            self.send_header("content-type", found.media_type if found else "text/html")
            self.end_headers()
            self.wfile.write(found.body if found else b"<!doctype html>")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", assets
    server.shutdown()


@pytest.fixture(scope="session")
def chromium(playwright_driver):
    """One for all files: starting it takes longer than most of them."""
    playwright, driver = playwright_driver
    try:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
    except playwright.Error as error:
        pytest.skip(f"no Chromium to drive; install it with `playwright install chromium`: {error}")
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def call(chromium, address):
    """Call what a module exports: call("page/dom.js", "fill", template, values); `call.page` is where."""
    url, assets = address
    page = chromium.new_page()
    page.set_default_timeout(SOON)
    page.goto(url)

    def call(path: str, what: str, *given: object):
        code = f"async ([path, given]) => {{ const module = await import(path); return ({what})(...given); }}"
        return page.evaluate(code, [f"/{assets.address(path)}", list(given)])

    call.page = page
    yield call
    page.close()
