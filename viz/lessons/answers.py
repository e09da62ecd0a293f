"""Grading of answers, and feedback on them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from viz.lessons.lesson import Lesson, LessonQuestion
from viz.lessons.values import entered, written

LONGEST = 200  # maximum length of an answer in characters
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?")
_HEAD = re.compile(r"(?:head|头)? ?l?(\d{1,4})[.,: h]+(\d{1,4})", re.IGNORECASE)


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
        text = normalize("NFKC", sent).strip().lstrip("~≈").rstrip("%×").replace("−", "-").replace(" ", "").lower()
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
    lesson: Lesson,
    question: LessonQuestion,
    sent: Any,
    value_of: Callable[[str], Any],
    words: Mapping[str, str],
    tries: int = 0,
) -> Verdict:
    """Judge an answer: right, a mistake known to the lesson, or wrong. `words` is section "learn".

    `tries` is the number of wrong answers before this one: the first wrong number is told only that it is wrong, later
    ones also in which direction. The distance is never told.
    """
    read_as = _choice_of(sent, question) if question.kind == "choice" else read(sent, question.kind)
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
    if tries < 1:
        return Verdict(False, words["wrong_number"])
    return Verdict(False, words["wrong_high" if read_as > entered(answer, show) else "wrong_low"])


def closeness(lesson: Lesson, question: LessonQuestion, sent: str, value_of: Callable[[str], Any]) -> str:
    """Grade a guess: "hit", "near" (a number off by at most a quarter), or "beside"."""
    read_as = _choice_of(sent, question) if question.kind == "choice" else read(sent, question.kind)
    if read_as is None:
        return "beside"
    answer, show = value_of(question.answer), lesson.values[question.answer].show
    if question.kind != "number":
        return "hit" if same(question, read_as, answer, show) else "beside"
    off, size = abs(read_as - entered(answer, show)), abs(entered(answer, show))
    # A guess is a round number: it is right if the result rounds to it, or if it is within 2% of the result.
    rounding = _rounding(sent) if show == "percent" else min(_rounding(sent), 0.1 * size)
    if off <= max(question.tolerance, 0.02 * size, rounding) + 1e-9:
        return "hit"
    return "near" if off <= max(size / 4, 3 if show == "percent" else 0) else "beside"


def _rounding(sent: str) -> float:
    """Return half a unit of the last digit that was typed: 65 stands for 64.5 to 65.5."""
    digits = sent.strip().removesuffix("%").strip()
    decimals = len(digits) - 1 - max(digits.rfind("."), digits.rfind(",")) if re.search(r"[.,]", digits) else 0
    return 0.5 * 10.0**-decimals


def _choice_of(sent: Any, question: LessonQuestion) -> Any:
    """Return the name of a choice, given as its name or its text in any case; another text as it is."""
    if not isinstance(sent, str) or not sent or len(sent) > LONGEST:
        return None
    wanted = sent.strip().casefold()
    named = [name for name, text in question.choices.items() if wanted in (name.casefold(), text.casefold())]
    return named[0] if named else sent


def _is(question: LessonQuestion, sent: Any, value: Any, lesson: Lesson, name: str) -> bool:
    return same(question, sent, value, lesson.values[name].show)


def _answer_text(value: Any, question: LessonQuestion) -> str:
    """Format an answer for the feedback, with braces replaced."""
    text = question.choices.get(value, "") if question.kind == "choice" else ""
    shown = text or written(value, "head" if question.kind == "head" else "token")
    return shown.replace("{", "(").replace("}", ")")


def _bare(token: Any) -> str:
    """Return a token without its leading space or the symbol that the page shows for the space."""
    return str(token).replace("·", " ").strip().strip("“”\"'").strip() or str(token)
