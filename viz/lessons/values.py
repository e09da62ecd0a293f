"""The values of a lesson, computed by the model on the page, and their text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.errors import InputError
from viz import numbers
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import arguments, call
from viz.labels import quoted
from viz.lessons.lesson import Lesson, Value
from viz.lessons.operations import apply, derived, taken
from viz.lessons.runs import find
from viz.work.playground import Playground

ENDPOINT = {each.name: each for each in ENDPOINTS}
PAGE = ("prompt", "layer", "head", "position")  # fields of the page that an argument may refer to: {page = "prompt"}


@dataclass(frozen=True)
class PageState:
    """The part of the visitor's page state that a lesson may read."""

    model: str = ""
    prompt: str = ""
    heads: tuple[tuple[int, int], ...] = ()
    tokens: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()  # ids of its training runs, in the order in which they were started

    def read(self, name: str) -> Any:
        """Return the prompt, the layer or index of the main head, or the selected position. Raises InputError if
        nothing is selected.
        """
        if name == "prompt":
            return self.prompt
        if name == "position":
            return max(self.tokens, default=-1)
        if not self.heads:
            raise InputError("No head is selected.", "", "Select one.")
        return self.heads[-1][name == "head"]


def start(lesson: Lesson) -> PageState:
    """Return the state of the page at the beginning of a lesson."""
    state = lesson.state
    heads = tuple(map(tuple, state.get("heads", ())))
    return PageState(lesson.model, state.get("prompt", ""), heads, tuple(state.get("tokens", ())))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Kept:
    """A cached value."""

    value: Any

    @property
    def nbytes(self) -> int:
        return 200 + len(json.dumps(self.value))


def value_of(playground: Playground, lesson: Lesson, name: str, page: PageState, owner: str = "") -> Any:
    """Compute a value of a lesson: a number, a string, or a head as [layer, head]; raises PlaygroundError."""
    value = lesson.values[name]
    if value.of:
        return derived(value.make, {each: value_of(playground, lesson, each, page, owner) for each in value.of})
    sent = _sent(playground, lesson, value, page)
    key = ("lesson", value.call, json.dumps([sent, list(value.take), value.make], sort_keys=True))

    def compute() -> _Kept:
        answer = call(playground, ENDPOINT[value.call], sent, owner)
        return _Kept(apply(value.make, taken(answer, value.take)))

    return playground.results.get(key, compute).value


def _sent(playground: Playground, lesson: Lesson, value: Value, page: PageState) -> dict[str, Any]:
    """Build the arguments of a value's call: the lesson's own, its prompt, and the model of the page."""
    names = {each.name for each in arguments(ENDPOINT[value.call])}
    sent = dict(value.arguments)
    for name, each in value.arguments.items():
        if _reads(each, "page"):
            sent[name] = page.read(each["page"])
        elif _reads(each, "run"):
            sent[name] = find(playground, lesson, each["run"], page.runs).id
    if "prompt" in names:
        sent.setdefault("prompt", lesson.state.get("prompt", page.prompt))
    if "model" in names:
        sent.setdefault("model", page.model or lesson.model)
    return sent


def _reads(argument: Any, what: str) -> bool:
    return isinstance(argument, Mapping) and set(argument) == {what}


def written(value: Any, show: str) -> str:
    """Format a value for a sentence."""
    if show == "head":
        return ".".join(map(str, value))
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return ", ".join(written(each, show) for each in value)
    return getattr(numbers, show)(value)


def entered(value: float, show: str) -> float:
    """Convert a number to the form in which a visitor enters it: a fraction becomes a percentage."""
    return 100 * value if show == "percent" else value
