"""A log that nobody can fill."""

import logging

import pytest

from tests.support.guard import Clock
from viz.server import quiet
from viz.server.quiet import MOST, Few


@pytest.fixture
def written():
    """A logger with the filter, its clock, and what it wrote."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    clock, handler = Clock(), Keep()
    handler.addFilter(Few(clock=clock))
    log = logging.Logger("some")
    log.addHandler(handler)
    return log, clock, lines


def test_so_many_of_one_kind_then_how_many_were_left_out(written):
    log, clock, lines = written
    for n in range(1000):
        log.warning("from %s", n)
    assert lines[: MOST + 1] == [f"from {n}" for n in range(MOST)] + ["more of this is left out for 60 s: from %s"]
    assert len(lines) == MOST + 1
    log.warning("something else")
    assert lines[-1] == "something else"
    clock.now += 60
    log.warning("from %s", "later")
    assert lines[-1] == "(980 like this were left out) from later"
    log.warning("from %s", "then")
    assert lines[-1] == "from then"


def test_what_asyncio_says_of_one_fault_is_one_kind(written):
    log, _, lines = written
    for n in range(100):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            log.exception(f"socket.accept() out of system resource\nsocket: <socket fd={n}>")
    assert len(lines) == MOST + 1 and "Traceback" in lines[0] and "Traceback" not in lines[-1]
    assert sum(map(len, lines)) < 20_000


def test_the_kinds_that_are_counted_take_bounded_memory(written, monkeypatch):
    monkeypatch.setattr(quiet, "KINDS", 10)
    log, _, lines = written
    for n in range(100):
        log.warning(f"kind {n}")
    (few,) = log.handlers[0].filters
    assert len(few._kinds) == 10 and len(lines) == 100
