"""The engine of a single process: every question is answered where it is asked."""

from collections.abc import Iterator
from threading import Event
from typing import TypeVar

from model.api import LanguageModel
from model.tracing.trace import Trace
from viz.work.engine import Ask, Status, Work

T = TypeVar("T")


class Local:
    """viz.work.engine.Engine, computing directly in this process."""

    threads = 96
    is_here = True

    def load(self, model: LanguageModel) -> None:
        """Do nothing: the model is already loaded."""

    def run(self, ask: Ask[Trace]) -> Trace:
        """Return the run."""
        return ask.here()

    def measure(self, ask: Ask[T]) -> T:
        """Return the measure."""
        return ask.here()

    def job(self, ask: Ask[Work]) -> Work:
        """Return the work."""
        return ask.here()

    def write(self, ask: Ask[Iterator[T]], stop: Event) -> Iterator[T]:
        """Return the iterator over the text."""
        return ask.here()

    def status(self) -> tuple[Status, ...]:
        """Return no others."""
        return ()

    def places(self) -> int:
        """Return 1, for this process."""
        return 1

    def is_reachable(self) -> bool:
        """Return True: this process computes."""
        return True

    def close(self) -> None:
        """Do nothing: no resource was opened."""
