"""The data of a lesson: steps that ask, request an action, show a number, check an answer and explain it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PARTS = ("reading", "looking", "why", "making", "own")  # of the path; a teacher's own are the last
KINDS = ("number", "token", "choice", "head")  # of what is answered
SHOWN = ("number", "whole", "percent", "decimals", "factor", "token", "head")  # how a value is written
Kind = Literal["number", "token", "choice", "head"]


@dataclass(frozen=True)
class Value:
    """A named number, token or head of a lesson, computed by the model when it is needed.

    It comes either from an endpoint's answer (`call`, `arguments`, `take`) or from earlier values (`of`), in both cases
    through an operation (`make`, "" for no operation).
    """

    name: str
    call: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    take: tuple = ()
    make: str = ""
    of: tuple[str, ...] = ()
    show: str = "number"


@dataclass(frozen=True)
class Run:
    """A training run of the visitor: the form that starts it, and its settings."""

    name: str
    part: str  # a key of viz.lessons.runs.FORMS
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A question, and the value that answers it."""

    text: str
    kind: Kind
    answer: str
    tolerance: float = 0.0  # of a number, as it is written: percent points for a share
    choices: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)  # by value or choice: what to say to that mistake
    at: tuple[str, ...] = ()  # of a check: where its answer is to be seen, () for what the step speaks of


@dataclass(frozen=True)
class Step:
    """One action with its question, explanation and check."""

    id: str
    do: str
    done: Mapping[str, Any]
    see: str
    why: str
    hints: tuple[str, ...]  # three; the last one comes with `show`
    ask: Question | None = None
    check: Question | None = None
    at: tuple[str, ...] = ()  # selectors of what it speaks of, the first that is on the page
    state: Mapping[str, Any] | None = None  # where the step begins; None: where the one before ended
    show: Mapping[str, Any] = field(default_factory=dict)  # what the last hint changes, and what it presses
    run: str = ""  # the run whose form is filled in where the step begins


@dataclass(frozen=True)
class Band:
    """The range that a lesson's main number has on its model."""

    of: str
    low: float
    high: float


@dataclass(frozen=True)
class Lesson:
    """One lesson in one language."""

    key: str
    language: str
    title: str
    goals: tuple[str, ...]
    minutes: int
    part: str
    order: int
    needs: tuple[str, ...]  # keys of lessons before it
    model: str  # "": the one that is shown
    state: Mapping[str, Any]  # as in a link
    values: Mapping[str, Value]
    steps: tuple[Step, ...]
    band: Band
    runs: Mapping[str, Run] = field(default_factory=dict)

    def step(self, key: str) -> Step | None:
        """Return the step of that id."""
        return next((step for step in self.steps if step.id == key), None)
