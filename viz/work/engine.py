"""The interface between the page or API and the models. One engine is chosen when the app starts."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.progress import Progress
from model.tracing.trace import Trace

T = TypeVar("T")
READS = ("pattern", "scores", "qkv", "z", "hidden", "middle", "logits_at", "mlp_activations")  # methods of a trace


@dataclass(frozen=True, eq=False)
class Ask(Generic[T]):
    """A question: answered in this process by `here`, or described as a value for another process."""

    model_id: str
    here: Callable[[], T]
    elsewhere: Callable[[], Hashable | None]  # the question as a value; None where only this process can answer


@dataclass(frozen=True, eq=False)
class Ran:
    """The parts that the page needs of a run in another process."""

    metrics: np.ndarray  # of all heads, as in Trace. [L, H, metrics]
    seconds: float
    read: Callable[..., Any] | None = None  # (name of READS, its arguments): an answer of the trace, from where it is


@dataclass(frozen=True, eq=False)
class Done:
    """The result of work, and its duration where it was done, waiting included."""

    value: Any
    seconds: float


@dataclass(frozen=True, eq=False)
class Work:
    """Work that reports its progress; an exception from the callback ends it."""

    run: Callable[[Progress], Done]
    locks: bool  # whether it computes in this process, in turns with others


@dataclass(frozen=True)
class Status:
    """The status of one holder of a model."""

    name: str
    model_id: str
    ready: bool
    under_way: int  # questions that this page waits for


class Busy(PlaygroundError):
    """Every replica is at capacity; retry shortly."""

    def __init__(self) -> None:
        super().__init__("The server is busy with others' work.", "", "Try again in a moment.")


class Engine(Protocol):
    """Answers questions about models. All methods raise PlaygroundError for errors that a person can cause, such as
    Busy.
    """

    threads: int  # of the page's process: one for each question that is under way or waits for its turn
    is_here: bool  # whether this process is the one that computes

    def load(self, model: LanguageModel) -> None:
        """Prepare a loaded model wherever its questions are answered."""

    def run(self, ask: Ask[Trace]) -> Trace | Ran:
        """Run a prompt."""

    def measure(self, ask: Ask[T]) -> T:
        """Return a quick measure of a view on a scene."""

    def job(self, ask: Ask[Work]) -> Work:
        """Return a slow measure as work. An exception from its progress callback cancels it, wherever it runs."""

    def write(self, ask: Ask[Iterator[T]], stop: Event) -> Iterator[T]:
        """Yield a text piece by piece. Closing the iterator, or setting `stop`, ends the work."""

    def status(self) -> tuple[Status, ...]:
        """Return the holders of models besides this process."""

    def places(self) -> int:
        """Return how many computers can work at once: this process counts as one, as does each replica."""

    def is_reachable(self) -> bool:
        """Return whether the engine was reachable at the last check."""

    def close(self) -> None:
        """Release all resources as the app ends."""
