"""The page on two processes: one is killed, the proxy is killed, one drains, and who has logged in stays inside.

How the pool replaces its processes is in tests/unit/cluster/workers/test_pool.py.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import FIRST, blank_page
from tests.support.elsewhere import ROOT
from tests.support.visitor import SOON, expect
from viz.cluster.workers.haproxy import COOKIE
from viz.cluster.workers.pool import free_ports, health_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed."),
]


def children(process: int) -> dict[int, list[str]]:
    """The processes that a process has started, each with its command."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    commands = {}
    for each in found:
        with contextlib.suppress(OSError):  # it ends
            commands[int(each)] = Path(f"/proc/{each}/cmdline").read_text().split("\0")
    return commands


def environment(process: int) -> dict[str, str]:
    pairs = Path(f"/proc/{process}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


class Several:
    """The command, its page processes by their names, and its proxy."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}/"
        people = folder / "people.txt"
        people.write_text("ann:secret\n", encoding="utf-8")
        command = [sys.executable, "app.py", "--offline", "--workers", "2", "--port", str(port), "--login", str(people)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout.readline().startswith("Attention playground:")

    def pages(self) -> dict[str, tuple[int, int]]:
        """name -> process and port, of those that answer; in the order of their ports they are page1, page2."""
        found = {}
        for each, command in children(self.process.pid).items():
            with contextlib.suppress(OSError, KeyError):  # it ends, or has only just begun
                told = environment(each)
                port = int(told["PLAYGROUND_PORT"])
                if "haproxy" not in command[0] and health_of(port):
                    found[told["PLAYGROUND_PLACE"]] = (each, port)
        return found

    def proxy(self) -> int:
        return next(each for each, command in children(self.process.pid).items() if "haproxy" in command[0])

    def wait_for_two(self) -> dict[str, tuple[int, int]]:
        """The pages, once both answer; one that is busy may answer late the next time."""
        until = time.monotonic() + 120
        while len(found := self.pages()) < 2 and time.monotonic() < until:
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Iterator[Several]:
    made = Several(tmp_path_factory.mktemp("people"))
    yield made
    made.process.terminate()
    assert made.process.wait(30) == 0


def place_of(page) -> str:
    return next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == COOKIE)


def test_a_page_goes_on_when_its_process_or_the_proxy_ends_and_stays_logged_in(several, profile):
    before = several.wait_for_two()
    assert set(before) == {"page1", "page2"}
    page = blank_page(profile)
    page.goto(several.url)
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()
    page.locator(FIRST).wait_for(timeout=SOON)
    chips = page.locator("#pg-tokens .pg-chip")
    page.locator("#prompt textarea").fill("The dog sat")
    expect(chips).to_have_count(3, timeout=SOON)

    # Its process is killed: another one goes on with the prompt, and asks for no password.
    home = place_of(page)
    os.kill(before[home][0], signal.SIGKILL)
    page.locator("#prompt textarea").fill("The dog sat on the mat")
    expect(chips).to_have_count(6, timeout=SOON)
    assert place_of(page) != home

    # The process is started again under its name, the proxy likewise.
    again = several.wait_for_two()
    assert again[home][1] == before[home][1] and again[home][0] != before[home][0]
    os.kill(several.proxy(), signal.SIGKILL)
    page.locator("#prompt textarea").fill("The cat sat on a mat here")
    expect(chips).to_have_count(7, timeout=SOON)
    page.close()  # a process that drains waits for its pages

    # A process says how much it has to do, and drains when it is told to.
    pages = several.wait_for_two()
    for process, port in pages.values():
        report = health_of(port)
        assert report["state"] == "ready" and report["process"] == process
        assert report["long_work"] == report["long_work_waits"] == 0
    process, port = pages[home]
    os.kill(process, signal.SIGUSR1)
    until = time.monotonic() + 10
    while health_of(port)["state"] != "draining" and time.monotonic() < until:
        time.sleep(0.05)
    assert health_of(port)["state"] == "draining"
    with urllib.request.urlopen(several.url, timeout=10) as answer:
        assert answer.status == 200
