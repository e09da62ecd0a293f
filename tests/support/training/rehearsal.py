"""Training in a thread of the test's own process instead of a new one: what `live` does, without seconds of imports."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from model.training.jobs.form import job_of
from model.training.jobs.job import Job, Limits
from viz.work.processes import training_process
from viz.work.processes.training_process import LiveRun, Workshop

SMALL = {"layers": 1, "heads": 2, "width": 16, "length": 16, "batch": 4, "steps": 3, "warmup": 1}
LONG = {"steps": 20_000}  # more than any test waits for
TALE = "The cat sat on the mat. The dog saw it & ran away, far away.\n" * 50


def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    """Wait for a condition; fail where it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def exit_code(run: LiveRun) -> int | None:
    """What the process of a run ended with, asked after its own thread: of two who ask at once, one hears 255."""
    for thread in threading.enumerate():
        if thread.name == run.id:
            thread.join(90)
            assert not thread.is_alive(), "waited in vain"
    return run.process.exitcode


class ThreadProcess:
    """As much of a process as `live` asks for."""

    def __init__(self, target: Callable, args: tuple, daemon: bool) -> None:
        connection, *rest = args
        self._ends = socket.socket(fileno=os.dup(connection.fileno()))
        mine = Connection(os.dup(connection.fileno()))  # whoever starts a process closes what it gave to it

        def run() -> None:
            try:
                target(mine, *rest)
            finally:
                self._ends.close()

        self._thread = thread = threading.Thread(target=run, daemon=daemon)
        self.start, self.join, self.is_alive = thread.start, thread.join, thread.is_alive

    @property
    def pid(self) -> int | None:
        """Which it is, once it runs."""
        return self._thread.ident

    def kill(self) -> None:
        """The connection breaks, which ends the work at its next message; nothing is written after that."""
        with contextlib.suppress(OSError):
            self._ends.shutdown(socket.SHUT_RDWR)
        self.join()


class ThreadContext:
    """As much of a multiprocessing context as `live` asks for."""

    Pipe, Process = staticmethod(Pipe), ThreadProcess


@contextlib.contextmanager
def in_threads() -> Iterator[None]:
    """Every workshop trains in threads; the test's own process keeps its priority and its number of threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_process, "context", lambda: ThreadContext)
        patch.setattr(training_process.os, "nice", lambda more: 0)
        patch.setattr(training_process.torch, "set_num_threads", lambda number: None)
        yield


def quick(**changes) -> Job:
    """A job of three steps that takes a moment."""
    return job_of(SMALL | changes, Limits())


def finish(shop: Workshop, owner: str = "me", **changes) -> LiveRun:
    """A run of a quick job, from its start to its end."""
    run = shop.start(owner, quick(**changes))
    until(lambda: run.over)
    return run
