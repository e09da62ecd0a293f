"""How far the forward of a prompt is that this process computes: one at a time, so that there is one to tell of."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from model.progress import Progress


@dataclass(eq=False)
class Running:
    """The forward under way: layers done, layers in all, and when it began; nothing between two."""

    _now: tuple[int, int, float] | None = None  # replaced whole, so that no reader needs a lock

    @contextmanager
    def told(self) -> Iterator[Progress]:
        """While a forward is computed: what it reports to."""
        began = time.monotonic()

        def progress(done: int, total: int | None, what: str) -> None:
            self._now = (done, total or 0, began)

        try:
            yield progress
        finally:
            self._now = None

    def report(self) -> dict[str, float]:
        """Return the layers done and in all, and the seconds it has taken so far; empty where nothing is computed."""
        now = self._now
        if now is None:
            return {}
        done, total, began = now
        return {"done": done, "total": total, "seconds": round(time.monotonic() - began, 1)}
