"""What the page and the API ask of whoever holds the models. One engine is chosen when the app starts."""

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
    """A question: answered in this process by `here`, or written down for another one."""

    model_id: str
    here: Callable[[], T]
    elsewhere: Callable[[], Hashable | None]  # the question as a value; None where only this process can answer


@dataclass(frozen=True, eq=False)
class Ran:
    """What the page itself needs of a run that another process has done."""

    metrics: np.ndarray  # of all heads, as in Trace. [L, H, metrics]
    seconds: float
    read: Callable[..., Any] | None = None  # (name of READS, its arguments): an answer of the trace, from where it is


@dataclass(frozen=True, eq=False)
class Done:
    """The value of work, and how long it took where it was done, waiting for others included."""

    value: Any
    seconds: float


@dataclass(frozen=True, eq=False)
class Work:
    """Work that reports its progress, which may raise to end it."""

    run: Callable[[Progress], Done]
    locks: bool  # whether it computes in this process, in turns with others


@dataclass(frozen=True)
class Status:
    """One holder of a model."""

    name: str
    model_id: str
    ready: bool
    under_way: int  # questions that this page waits for


class Busy(PlaygroundError):
    """All who could answer have too much to do; the same question may be answered in a moment."""

    def __init__(self) -> None:
        super().__init__("The server is busy with others' work.", "", "Try again in a moment.")


class Engine(Protocol):
    """Answers questions about models. All methods raise PlaygroundError for what a person can cause; Busy is one."""

    threads: int  # of the page's process: one for each question that is under way or waits for its turn
    is_here: bool  # whether this process is the one that computes

    def load(self, model: LanguageModel) -> None:
        """A model was loaded here: have it ready where its questions are answered."""

    def run(self, ask: Ask[Trace]) -> Trace | Ran:
        """Run a prompt."""

    def measure(self, ask: Ask[T]) -> T:
        """A quick measure of a view on a scene."""

    def job(self, ask: Ask[Work]) -> Work:
        """A slow measure as work: what its progress raises cancels it, wherever it goes on."""

    def write(self, ask: Ask[Iterator[T]], stop: Event) -> Iterator[T]:
        """A text piece by piece. Closing the iterator, or setting `stop`, ends the work."""

    def status(self) -> tuple[Status, ...]:
        """The holders of models besides this process."""

    def places(self) -> int:
        """How many computers' work can go on at once: this process counts as one, as does each replica."""

    def is_reachable(self) -> bool:
        """Return whether the engine can be reached, as far as is known."""

    def close(self) -> None:
        """Leave, as the app ends."""
