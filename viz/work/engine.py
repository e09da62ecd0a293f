"""The interface between the page or API and the models. One engine is selected when the app starts."""

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
class EngineRequest(Generic[T]):
    """A request that `local` answers in this process, or that is described as a value for another process."""

    model_id: str
    local: Callable[[], T]
    elsewhere: Callable[[], Hashable | None]  # the question as a value; None if only this process can answer


@dataclass(frozen=True, eq=False)
class Ran:
    """The parts of a remote run that the page needs."""

    metrics: np.ndarray  # metrics of all heads, as in Trace. [L, H, metrics]
    seconds: float
    # (name in READS, arguments) -> the result, computed in the process that holds the trace
    read: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)
class Done:
    """The result of a computation, and its duration in the process that performed it, including waits."""

    value: Any
    seconds: float


@dataclass(frozen=True, eq=False)
class Work:
    """A computation that reports its progress; an exception from the callback ends it."""

    run: Callable[[Progress], Done]
    locks: bool  # whether it computes in this process, and therefore waits for the model lock


@dataclass(frozen=True)
class Status:
    """The status of one process that holds a model."""

    name: str
    model_id: str
    ready: bool
    under_way: int  # number of pending questions of this page


class Busy(PlaygroundError):
    """Error raised if every replica is at capacity; the client may retry shortly."""

    def __init__(self) -> None:
        super().__init__("The server is busy with others' work.", "", "Try again in a moment.")


class Engine(Protocol):
    """The interface for questions about models. All methods raise PlaygroundError for errors that a user can cause,
    and Busy.
    """

    threads: int  # maximum number of threads in the page's process: one per question, running or waiting
    is_here: bool  # whether this process computes

    def load(self, model: LanguageModel) -> None:
        """Prepare a loaded model in each process that will answer questions about it."""

    def run(self, ask: EngineRequest[Trace]) -> Trace | Ran:
        """Run a prompt."""

    def measure(self, ask: EngineRequest[T]) -> T:
        """Compute a quick measure of a view on a scene."""

    def job(self, ask: EngineRequest[Work]) -> Work:
        """Return a slow measure as work to be run. An exception from its progress callback cancels it, wherever it
        runs.
        """

    def write(self, ask: EngineRequest[Iterator[T]], stop: Event) -> Iterator[T]:
        """Yield a text piece by piece. Closing the iterator, or setting `stop`, ends generation."""

    def status(self) -> tuple[Status, ...]:
        """Return the status of all holders of models besides this process."""

    def places(self) -> int:
        """Return the number of processes that can compute at once: this process counts as one, as does each replica."""

    def is_reachable(self) -> bool:
        """Return whether the engine was reachable at the last check."""

    def close(self) -> None:
        """Release all resources when the app ends."""
