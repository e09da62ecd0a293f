"""Callbacks of long work: `progress(done, total, what)`, which may raise to cancel it, and what is done of a run."""

from collections.abc import Callable
from typing import Any

# (units done, units in all or None where unknown, what is being done)
Progress = Callable[[int, int | None, str], None]


class Told(str):
    """What is done or has been found, as a sentence in the reader's language: a page shows it beside the bar."""


# (the model.tracing.trace.Trace of a run that goes on, how many of its layers are done)
Passed = Callable[[Any, int], None]


def unseen(trace: Any, layers: int) -> None:
    """What is done of a run is looked at by nobody."""


def silent(done: int, total: int | None, what: str) -> None:
    """A progress callback that does nothing."""
