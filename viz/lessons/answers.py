"""Grading of answers, and the feedback to them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from viz import numbers
from viz.lessons.lesson import Lesson, Question
from viz.lessons.values import entered, written

LONGEST = 200  # characters of an answer
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?")
_HEAD = re.compile(r"(\d{1,4})[.,: ]+(\d{1,4})")


@dataclass(frozen=True)
class Verdict:
    """The grade of an answer and its feedback; `text` may name values in braces."""

    right: bool
    text: str
    understood: bool = True  # False for what is no answer of this kind


def read(given: Any, kind: str) -> Any:
    """Parse a visitor's input as a value of a kind; None if it is malformed."""
    if not isinstance(given, str) or not given or len(given) > LONGEST:
        return None
    if kind == "number":
        text = given.strip().removesuffix("%").strip().replace("−", "-").replace(" ", "").lower()
        text = text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text) else text.replace(",", ".")
        return float(text) if _NUMBER.fullmatch(text) else None
    if kind == "head":
        found = _HEAD.fullmatch(given.strip())
        return [int(found[1]), int(found[2])] if found else None
    return given


def same(question: Question, given: Any, value: Any, show: str) -> bool:
    """Return whether an answer equals a value within the tolerance."""
    if question.kind == "number":
        if isinstance(value, str | list) or value is None:
            return False
        return abs(given - entered(value, show)) <= question.tolerance + 1e-9
    if question.kind == "token":
        return _bare(given) == _bare(value)
    return given == value


def judged(
    lesson: Lesson, question: Question, given: Any, value_of: Callable[[str], Any], words: Mapping[str, str]
) -> Verdict:
    """Grade an answer: right, a mistake that the lesson names, or wrong by some amount. `words`: the
    section "learn".
    """
    read_as = read(given, question.kind)
    if read_as is None:
        return Verdict(False, words[f"type_{question.kind}"], understood=False)
    answer, show = value_of(question.answer), lesson.values[question.answer].show
    if same(question, read_as, answer, show):
        return Verdict(True, words["right"])
    for name, text in question.wrong.items():
        if name == read_as or (name in lesson.values and _is(question, read_as, value_of(name), lesson, name)):
            return Verdict(False, text)
    if question.kind != "number":
        return Verdict(False, words[f"wrong_{question.kind}"].format(given=_said(read_as, question)))
    away = read_as - entered(answer, show)
    unit = "%" if show == "percent" else ""
    size = numbers.number(abs(away), 2 if abs(away) < 100 else 3) + unit
    return Verdict(False, words["wrong_high" if away > 0 else "wrong_low"].format(n=size))


def _is(question: Question, given: Any, value: Any, lesson: Lesson, name: str) -> bool:
    return same(question, given, value, lesson.values[name].show)


def _said(value: Any, question: Question) -> str:
    """Return an answer as the feedback repeats it, with its braces escaped."""
    text = question.choices.get(value, "") if question.kind == "choice" else ""
    shown = text or written(value, "head" if question.kind == "head" else "token")
    return shown.replace("{", "(").replace("}", ")")


def _bare(token: Any) -> str:
    """Return a token without its leading space and the sign that the page draws for it."""
    return str(token).replace("·", " ").strip()
