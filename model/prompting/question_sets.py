"""The bundled question sets, written for this project; `sets` contains one file for each."""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model.arguments import shown
from model.errors import InputError, say
from model.public import public

FOLDER = Path(__file__).with_name("sets")


@dataclass(frozen=True)
class Question:
    """A question and its answer, which is one of `choices` if there are any."""

    text: str
    answer: str
    choices: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()  # alternative spellings of the answer

    @property
    def right(self) -> tuple[str, ...]:
        """All strings that count as a correct answer."""
        return self.answer, *self.accepted


@dataclass(frozen=True)
class WorkedQuestion:
    """A question with its answer, for use in a prompt."""

    text: str
    answer: str
    worked: str = ""  # the worked solution as text, for a chain of thought
    thought: str = ""  # the thought before a tool call
    call: str = ""  # a tool call such as "calculate[2 + 3]"; its observation is computed


@dataclass(frozen=True)
class QuestionGroup:
    """Questions that share the same examples."""

    examples: tuple[WorkedQuestion, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class QuestionSet:
    """Questions of one kind and the format of their prompts."""

    key: str
    model: str  # id of the model for which the set was written
    kind: Literal["word", "number"]  # type of the answer to extract from a generated text
    instruction: str  # "" if the set has no instruction
    frame: str  # contains "{question}"; the answer follows after a space
    join: str  # separator between examples
    groups: tuple[QuestionGroup, ...]
    table: tuple[tuple[str, str], ...] = ()  # entries of the lookup tool

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions, group by group."""
        return tuple(each for group in self.groups for each in group.questions)

    @property
    def choosable(self) -> bool:
        """True if every question has choices."""
        return all(each.choices for each in self.questions)

    @property
    def chains(self) -> bool:
        """True if the examples have worked solutions."""
        return all(each.worked for group in self.groups for each in group.examples)

    @property
    def tools(self) -> bool:
        """True if the examples call a tool."""
        return all(each.call for group in self.groups for each in group.examples)


@functools.cache
def keys() -> tuple[str, ...]:
    """Return the keys of the sets, starting with those for the small bundled model."""
    names = sorted(path.stem for path in FOLDER.glob("*.toml"))
    return tuple(sorted(names, key=lambda key: (question_set(key).model != "tinygpt", key)))


@public()
@functools.cache
def question_set(key: str) -> QuestionSet:
    """Return a set by its key. Raises InputError for an unknown key."""
    path = FOLDER / f"{key}.toml"
    if not key.isidentifier() or not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.toml")))
        raise InputError("No question set has this name.", shown(key), say("Choose one of: {}.", known))
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = tuple(
        QuestionGroup(
            tuple(WorkedQuestion(**each) for each in group["examples"]),
            tuple(_question(each, read.get("choices", ())) for each in group["questions"]),
        )
        for group in read["group"]
    )
    return QuestionSet(
        key,
        read["model"],
        read["kind"],
        read.get("instruction", ""),
        read["frame"],
        read.get("join", "\n"),
        groups,
        tuple(read.get("table", {}).items()),
    )


def _question(read: dict, choices: list[str]) -> Question:
    """Build a question from its entry in a file; `choices` are the shared choices of the set."""
    return Question(read["text"], read["answer"], tuple(read.get("choices", choices)), tuple(read.get("accepted", ())))
