"""The progress of the forward pass that this process is computing; only one runs at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from model.progress import Progress


@dataclass(eq=False)
class ForwardProgress:
    """The current forward pass: layers done, total layers, and start time; empty between two passes."""

    _now: tuple[int, int, float] | None = None  # replaced as one value, so that readers need no lock

    @contextmanager
    def reporting(self) -> Iterator[Progress]:
        """Yield the progress callback of the current forward pass; the record is cleared at the end."""
        began = time.monotonic()

        def progress(done: int, total: int | None, what: str) -> None:
            self._now = (done, total or 0, began)

        try:
            yield progress
        finally:
            self._now = None

    def report(self) -> dict[str, float]:
        """Return the layers done, the total, and the seconds elapsed; empty if no forward pass is running."""
        now = self._now
        if now is None:
            return {}
        done, total, began = now
        return {"done": done, "total": total, "seconds": round(time.monotonic() - began, 1)}
