"""The engine of a single process: every question is answered in the process that asks it."""

from collections.abc import Iterator
from threading import Event
from typing import TypeVar

from model.api import LanguageModel
from model.tracing.trace import Trace
from viz.work.engine import EngineRequest, Status, Work

T = TypeVar("T")


class Local:
    """An implementation of viz.work.engine.Engine that computes directly in this process."""

    threads = 96
    is_here = True

    def load(self, model: LanguageModel) -> None:
        """Do nothing: the model is already loaded."""

    def run(self, ask: EngineRequest[Trace]) -> Trace:
        """Run the prompt and return its trace."""
        return ask.local()

    def measure(self, ask: EngineRequest[T]) -> T:
        """Compute the measure."""
        return ask.local()

    def job(self, ask: EngineRequest[Work]) -> Work:
        """Return the work unchanged, to be run in this process."""
        return ask.local()

    def write(self, ask: EngineRequest[Iterator[T]], stop: Event) -> Iterator[T]:
        """Return the iterator over the text."""
        return ask.local()

    def status(self) -> tuple[Status, ...]:
        """Return an empty tuple: there are no other holders of models."""
        return ()

    def places(self) -> int:
        """Return 1, for this process."""
        return 1

    def is_reachable(self) -> bool:
        """Return True: this process computes."""
        return True

    def close(self) -> None:
        """Do nothing: no resource was opened."""
