"""Grading of answers, and feedback on them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from viz import numbers
from viz.lessons.lesson import Lesson, LessonQuestion
from viz.lessons.values import entered, written

LONGEST = 200  # maximum length of an answer in characters
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?")
_HEAD = re.compile(r"(\d{1,4})[.,: ]+(\d{1,4})")


@dataclass(frozen=True)
class Verdict:
    """The grade of an answer and its feedback; `text` may name values in braces."""

    right: bool
    text: str
    understood: bool = True  # False if the input is not an answer of this kind


def read(sent: Any, kind: str) -> Any:
    """Parse a visitor's input as a value of a kind; None if it is malformed."""
    if not isinstance(sent, str) or not sent or len(sent) > LONGEST:
        return None
    if kind == "number":
        text = sent.strip().removesuffix("%").strip().replace("−", "-").replace(" ", "").lower()
        text = text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text) else text.replace(",", ".")
        return float(text) if _NUMBER.fullmatch(text) else None
    if kind == "head":
        match = _HEAD.fullmatch(sent.strip())
        return [int(match[1]), int(match[2])] if match else None
    return sent


def same(question: LessonQuestion, sent: Any, value: Any, show: str) -> bool:
    """Return whether an answer equals a value within the tolerance."""
    if question.kind == "number":
        if isinstance(value, str | list) or value is None:
            return False
        return abs(sent - entered(value, show)) <= question.tolerance + 1e-9
    if question.kind == "token":
        return _bare(sent) == _bare(value)
    return sent == value


def judged(
    lesson: Lesson, question: LessonQuestion, sent: Any, value_of: Callable[[str], Any], words: Mapping[str, str]
) -> Verdict:
    """Judge an answer: right, a mistake known to the lesson, or wrong by some amount. `words` is section "learn"."""
    read_as = read(sent, question.kind)
    if read_as is None:
        return Verdict(False, words[f"type_{question.kind}"], understood=False)
    answer, show = value_of(question.answer), lesson.values[question.answer].show
    if same(question, read_as, answer, show):
        return Verdict(True, words["right"])
    for name, text in question.wrong.items():
        if name == read_as or (name in lesson.values and _is(question, read_as, value_of(name), lesson, name)):
            return Verdict(False, text)
    if question.kind != "number":
        return Verdict(False, words[f"wrong_{question.kind}"].format(given=_answer_text(read_as, question)))
    away = read_as - entered(answer, show)
    unit = "%" if show == "percent" else ""
    size = numbers.number(abs(away), 2 if abs(away) < 100 else 3) + unit
    return Verdict(False, words["wrong_high" if away > 0 else "wrong_low"].format(n=size))


def _is(question: LessonQuestion, sent: Any, value: Any, lesson: Lesson, name: str) -> bool:
    return same(question, sent, value, lesson.values[name].show)


def _answer_text(value: Any, question: LessonQuestion) -> str:
    """Format an answer for the feedback, with braces replaced."""
    text = question.choices.get(value, "") if question.kind == "choice" else ""
    shown = text or written(value, "head" if question.kind == "head" else "token")
    return shown.replace("{", "(").replace("}", ")")


def _bare(token: Any) -> str:
    """Return a token without its leading space or the symbol that the page shows for the space."""
    return str(token).replace("·", " ").strip()
