"""The data of a lesson: steps that ask a question, request an action, show a number, check an answer and explain it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# parts of the course; a teacher's own lessons come last
PARTS = ("text", "block", "whole", "writing", "learning", "assistant", "own")
LEVELS = (1, 2, 3)  # difficulty of a lesson
KINDS = ("number", "token", "choice", "head")  # kinds of answers
SHOWN = ("number", "whole", "percent", "decimals", "factor", "token", "head")  # formats of a value
Kind = Literal["number", "token", "choice", "head"]


@dataclass(frozen=True)
class Value:
    """A named number, token or head of a lesson, computed by the model on demand.

    It is derived from an endpoint's answer (`call`, `arguments`, `take`) or from earlier values (`of`), in both cases
    by an operation (`make`, "" for no operation).
    """

    name: str
    call: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    take: tuple = ()
    make: str = ""
    of: tuple[str, ...] = ()
    show: str = "number"


@dataclass(frozen=True)
class LessonRun:
    """A training run to be started by the visitor: its form, and its settings."""

    name: str
    part: str  # a key of viz.lessons.runs.FORMS
    values: Mapping[str, Any]


@dataclass(frozen=True)
class LessonQuestion:
    """A question, and the value that answers it."""

    text: str
    kind: Kind
    answer: str
    tolerance: float = 0.0  # tolerance of a number in the unit in which it is shown, such as percentage points
    choices: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)  # value or choice -> feedback on that mistake
    at: tuple[str, ...] = ()  # for a check: selectors of the element with its answer; () means the elements of the step
    hints: tuple[str, ...] = ()  # for a check: hints that replace those of the step once the action is done
    hidden: bool = False  # for a check: True if its text is sent only after the action and a guess


@dataclass(frozen=True)
class LessonStep:
    """One action with its question, explanation and check."""

    id: str
    do: str
    done: Mapping[str, Any]
    see: str
    why: str
    hints: tuple[str, ...]  # three hints; the last one comes with `show`
    ask: LessonQuestion | None = None
    check: LessonQuestion | None = None
    at: tuple[str, ...] = ()  # selectors of the elements that it describes; the first match on the page counts
    # the page's state at the beginning; None keeps the state of the previous step
    state: Mapping[str, Any] | None = None
    show: Mapping[str, Any] = field(default_factory=dict)  # the changes and clicks of the last hint
    run: str = ""  # name of the run whose form is filled in at the beginning


@dataclass(frozen=True)
class ValueBand:
    """The range within which a lesson's main number falls on its model."""

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
    needs: tuple[str, ...]  # keys of the prerequisite lessons
    model: str  # id of the model; "" for the loaded one
    state: Mapping[str, Any]  # state of the page, as in a link
    values: Mapping[str, Value]
    steps: tuple[LessonStep, ...]
    band: ValueBand
    runs: Mapping[str, LessonRun] = field(default_factory=dict)
    opens: str = ""  # one sentence that says why the lesson matters
    level: int = 1
    reviews: Mapping[str, LessonQuestion] = field(default_factory=dict)  # questions that come back in later lessons

    def step(self, key: str) -> LessonStep | None:
        """Return the step with the given id."""
        return next((step for step in self.steps if step.id == key), None)
