"""Progress callback of long work, `progress(done, total, what)`; it may raise to cancel the work."""

from collections.abc import Callable

# (units done, units in all or None where unknown, what is being done)
Progress = Callable[[int, int | None, str], None]


class Told(str):
    """What is done or has been found, as a sentence in the reader's language: a page shows it beside the bar."""


def silent(done: int, total: int | None, what: str) -> None:
    """A progress callback that does nothing."""
