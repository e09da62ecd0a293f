"""How long work tells that it goes on: `progress(done, total, what)`, which may raise to cancel the work."""

from collections.abc import Callable

# (bytes done, bytes in all or None where that is not known, what is being done)
Progress = Callable[[int, int | None, str], None]


def silent(done: int, total: int | None, what: str) -> None:
    """The progress that tells nobody."""
