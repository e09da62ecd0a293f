"""A real server, a real Chromium: `python app.py` in a process of its own, driven through Playwright."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model.errors import DownloadError
from model.sources import smollm2_path

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing but the app can be reached
)  # fmt: skip


@pytest.fixture(scope="session")
def start_app(tmp_path_factory):
    """Start `python app.py` with options and return its address; its log is printed where it does not come up."""
    servers = []

    def start(*options: str) -> str:
        log = (tmp_path_factory.mktemp("app") / "log").open("w+")
        server = subprocess.Popen(
            [sys.executable, "app.py", *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        servers.append(server)
        line = server.stdout.readline()  # ends at once where the process does
        if not line.startswith("Attention playground:"):
            server.kill()
            log.seek(0)
            pytest.fail(f"the app did not start:\n{line}{log.read()}")
        return line.split()[-1]

    yield start
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait(timeout=20)


@pytest.fixture(scope="session")
def app_url(start_app):
    """The address of an app with the real model."""
    try:
        smollm2_path()
    except DownloadError as error:
        pytest.skip(f"the app's model cannot be fetched: {error}")
    return start_app("--offline", "--max-tokens", "700", "--model", "smollm2-135m")


@pytest.fixture(scope="session")
def start_tiny(start_app):
    """The address of an app with the bundled model."""
    return start_app("--offline", "--max-tokens", "512")


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium where it is installed, else the one Playwright finds."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        try:
            chromium = p.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        except playwright.Error as error:
            pytest.skip(f"no Chromium to drive; install it with `playwright install chromium`: {error}")
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def contexts(browser):
    """Browser contexts by their options, kept so that what a page loads is not fetched again by every test."""
    made = {}

    def context(**options):
        options = {"viewport": {"width": 1280, "height": 900}} | options
        key = repr(sorted(options.items()))
        if key not in made:
            made[key] = browser.new_context(**options)
        return made[key]

    yield context
    for each in made.values():
        each.close()


@pytest.fixture
def open_page(contexts, app_url):
    """Open the page at a size; at the end no script may have failed and no other host been asked for anything."""
    pages, errors, elsewhere = [], [], []

    def open_at(query: str = "", *, url: str = app_url, ready: str = "#pg-plot [data-run]", **options):
        page = contexts(**options).new_page()
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))

        def look(request):
            if not request.url.startswith((url, "data:", "blob:")):
                elsewhere.append(request.url)

        page.on("request", look)
        page.goto(url + query)
        page.locator(ready).wait_for(timeout=40_000)
        return page

    yield open_at
    for page in pages:
        page.close()
    assert not errors
    assert not elsewhere
