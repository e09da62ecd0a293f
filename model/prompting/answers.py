"""Extraction of an answer from generated text, and majority votes over several samples."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from model.prompting.question_sets import Question

ANSWER_IS = "The answer is"  # precedes the answer at the end of every chain of thought in the examples of the sets
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_ARTICLES = ("the ", "a ", "an ")


def plain_answer(text: str) -> str:
    """Normalize an answer for comparison: lower case, no leading article, no surrounding punctuation, single spaces."""
    small = " ".join(text.casefold().split()).strip(" .,;:!?\"'*`“”‘’()")
    return next((small.removeprefix(each) for each in _ARTICLES if small.startswith(each)), small)


def read_answer(text: str, kind: Literal["word", "number"], known: Sequence[str], *, chain: bool = False) -> str:
    """Extract the answer from a generated text; "" if it contains none.

    In a chain of thought, the answer follows the first ANSWER_IS; otherwise it is in the first nonempty line. A
    numeric answer is the first number after ANSWER_IS, or the last one of a line ("27 + 48 = 75"). A word is the first
    of `known` (answers and choices) that is mentioned, or else the line up to its first punctuation mark.
    """
    if chain:
        _, mark, text = text.partition(ANSWER_IS)
        if not mark:
            return ""
    line = next((each for each in text.splitlines() if each.strip()), "")
    if kind == "number":
        numbers = _NUMBER.findall(line)
        return numbers[0 if chain else -1].replace(",", "").replace("−", "-") if numbers else ""
    small = " ".join(line.casefold().split())
    names = [name for name in map(plain_answer, known) if name]
    matches = [
        (at.start(), -len(name), name) for name in names if (at := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", small))
    ]
    return min(matches)[2] if matches else plain_answer(re.split(r"[.,;!?]", small)[0])


def is_right(text: str, question: Question) -> bool:
    """Return whether an extracted answer counts as correct."""
    return bool(text) and plain_answer(text) in map(plain_answer, question.right)


@dataclass(frozen=True)
class Vote:
    """The majority vote over the answers of several samples; ties go to the answer that came first."""

    answer: str  # "" if no sample had an answer
    counts: tuple[tuple[str, int], ...]  # in decreasing order of frequency; samples without an answer do not vote
    tied: bool  # whether another answer has as many votes


def vote(answers: Sequence[str]) -> Vote:
    """Take the majority of the extracted answers (self-consistency, Wang et al. 2022). "" does not count as a vote."""
    counts = Counter(each for each in answers if each).most_common()  # ties are in the order of first appearance
    if not counts:
        return Vote("", (), False)
    return Vote(counts[0][0], tuple(counts), len(counts) > 1 and counts[1][1] == counts[0][1])
