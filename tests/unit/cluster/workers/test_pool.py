"""The pool that starts page processes: who ends is started again, a restart goes round, and all end with it."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from viz.cluster.workers import pool as module
from viz.cluster.workers.haproxy import HEALTH, Front
from viz.cluster.workers.pool import Pool, free_ports, health_of

pytestmark = pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed.")


@pytest.fixture
def pool(monkeypatch) -> Iterator[Pool]:
    monkeypatch.setattr(module, "CALM", 0.0)
    monkeypatch.setattr(module, "LOOK", 0.02)
    program = Path(__file__).with_name("page_process.py")
    made = Pool([sys.executable, str(program), HEALTH], Front("127.0.0.1", free_ports(1)[0]), 2)
    made.start()
    eventually(lambda: all(map(health_of, made.ports)))
    yield made
    made.stop()


def eventually(true) -> None:
    until = time.monotonic() + 20
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    assert true()


def asked(port: int, path: str = "/") -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).read()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        asked(port)
        return True
    return False


def processes(pool: Pool) -> list[int]:
    return [worker.process.pid for worker in pool.workers]


def test_what_ends_is_started_again_in_its_place_and_all_of_it_ends_with_the_pool(pool):
    before, reports = processes(pool), [health_of(port) for port in pool.ports]
    assert [each["place"] for each in reports] == ["page1", "page2"] and len({each["key"] for each in reports}) == 1
    eventually(lambda: listens(pool.front.port))
    os.kill(before[0], signal.SIGKILL)
    os.kill(pool.proxy.pid, signal.SIGKILL)
    pool.proxy.wait(5)
    pool.workers[0].process.wait(5)
    pool.look()
    eventually(lambda: health_of(pool.ports[0]))
    assert processes(pool)[0] != before[0] and processes(pool)[1] == before[1]
    assert health_of(pool.ports[0])["place"] == "page1"
    eventually(lambda: listens(pool.front.port))
    pool.stop()
    assert all(worker.process.poll() is not None for worker in pool.workers) and pool.proxy.poll() is not None


def test_a_rolling_restart_waits_for_the_open_pages_of_one_process_after_the_other(pool):
    before = processes(pool)
    rolling = threading.Thread(target=pool.roll)
    rolling.start()
    eventually(lambda: (health_of(pool.ports[0]) or {}).get("state") == "draining")
    assert processes(pool) == before and health_of(pool.ports[1])["state"] == "ready"
    asked(pool.ports[0], "/leave")
    eventually(lambda: (health_of(pool.ports[1]) or {}).get("state") == "draining")
    assert processes(pool)[0] != before[0] and health_of(pool.ports[0])["state"] == "ready"
    asked(pool.ports[1], "/leave")
    rolling.join(20)
    assert not rolling.is_alive() and not set(processes(pool)) & set(before)


def test_an_address_that_is_taken_is_refused_before_anything_starts():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        made = Pool(["no such program"], Front(*other.getsockname()), 2)
        with pytest.raises(module.InputError, match="cannot listen"):
            made.start()
    assert made.workers == [] and not made.folder.exists()


def test_where_no_process_starts_that_is_said():
    made = Pool([sys.executable, "-c", "raise SystemExit(3)"], Front("127.0.0.1", free_ports(1)[0]), 2)
    with pytest.raises(module.InputError, match="No page process"):
        made.start()
    assert not made.folder.exists()
