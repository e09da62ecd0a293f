"""Reading an answer out of a text that a model wrote, and counting votes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from model.prompting.question_sets import Question

ANSWER_IS = "The answer is"  # what ends a chain of thought, in every example of the sets
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_ARTICLES = ("the ", "a ", "an ")


def plain_answer(text: str) -> str:
    """Return a text as answers are compared: small letters, no article before it, no marks around it, single spaces."""
    small = " ".join(text.casefold().split()).strip(" .,;:!?\"'*`“”‘’()")
    return next((small.removeprefix(each) for each in _ARTICLES if small.startswith(each)), small)


def read_answer(text: str, kind: Literal["word", "number"], known: Sequence[str], *, chain: bool = False) -> str:
    """Return the answer in a text; "" where none can be read.

    In a chain of thought it stands behind the first ANSWER_IS, elsewhere in the first line that is not empty. A number
    is the first one behind ANSWER_IS, the last one of a line ("27 + 48 = 75"). A word is the first of `known` (answers
    and choices) that is mentioned, else the line up to its first stop.
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
    found = [
        (at.start(), -len(name), name) for name in names if (at := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", small))
    ]
    return min(found)[2] if found else plain_answer(re.split(r"[.,;!?]", small)[0])


def is_right(said: str, question: Question) -> bool:
    """Return whether an answer that was read is one that counts."""
    return bool(said) and plain_answer(said) in map(plain_answer, question.right)


@dataclass(frozen=True)
class Vote:
    """The answers of several samples: the most frequent one wins; of several such, the one that was said first."""

    answer: str  # "" where no sample had an answer
    counts: tuple[tuple[str, int], ...]  # from the most to the least frequent; samples without an answer do not vote
    tied: bool  # whether another answer has as many votes


def vote(answers: Sequence[str]) -> Vote:
    """Return the majority of the answers that were read (self-consistency, Wang et al. 2022). "" is no vote."""
    counts = Counter(each for each in answers if each).most_common()  # equal ones in the order they were first seen
    if not counts:
        return Vote("", (), False)
    return Vote(counts[0][0], tuple(counts), len(counts) > 1 and counts[1][1] == counts[0][1])
