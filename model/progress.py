"""Callbacks of long computations: `progress(done, total, what)`, which may raise to cancel, and observers of a run."""

from collections.abc import Callable
from typing import Any

# (units done, total units or None if unknown, description of the work)
Progress = Callable[[int, int | None, str], None]


class ProgressMessage(str):
    """A message about progress or a result, in the user's language, which the page shows beside the progress bar.

    `grid` are the numbers so far as rows, which the page draws as a small map below the bar; None for no map.
    """

    grid: list[list[float]] | None = None


# (the model.tracing.trace.Trace of a run in progress, number of finished layers)
Passed = Callable[[Any, int], None]


def unseen(trace: Any, layers: int) -> None:
    """Ignore the finished layers: an observer of a run that does nothing."""


def silent(done: int, total: int | None, what: str) -> None:
    """Ignore all reports: a progress callback that does nothing."""
