"""Callbacks of long work: `progress(done, total, what)`, which may raise to cancel it, and observers of a run."""

from collections.abc import Callable
from typing import Any

# (units done, total units or None if unknown, description of the work)
Progress = Callable[[int, int | None, str], None]


class ProgressMessage(str):
    """A sentence about progress or a result, in the reader's language, which the page shows beside the bar."""


# (the model.tracing.trace.Trace of a run in progress, number of finished layers)
Passed = Callable[[Any, int], None]


def unseen(trace: Any, layers: int) -> None:
    """Ignore the layers that are done: the observer of a run that does nothing."""


def silent(done: int, total: int | None, what: str) -> None:
    """Ignore all reports: the progress callback that does nothing."""
