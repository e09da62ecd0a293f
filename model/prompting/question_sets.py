"""The question sets that come with the program: our own, a file each in `sets`."""

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
    """A question and its answer; where there are choices, the answer is one of them."""

    text: str
    answer: str
    choices: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()  # other ways to write the answer

    @property
    def right(self) -> tuple[str, ...]:
        """Every text that counts as right."""
        return self.answer, *self.accepted


@dataclass(frozen=True)
class Example:
    """A question with its answer, to stand in a prompt."""

    text: str
    answer: str
    worked: str = ""  # the way to the answer in words, for a chain of thought
    thought: str = ""  # what precedes the call of a tool
    call: str = ""  # of a tool, as "calculate[2 + 3]"; its observation is computed


@dataclass(frozen=True)
class Group:
    """Questions that share their examples."""

    examples: tuple[Example, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class QuestionSet:
    """Questions of one kind, and how they are asked."""

    key: str
    model: str  # the id of the model that it was made for
    kind: Literal["word", "number"]  # what is read in a text as an answer
    instruction: str  # "" for none
    frame: str  # "{question}" in it; the answer follows after a space
    join: str  # what stands between an example and the next one
    groups: tuple[Group, ...]
    table: tuple[tuple[str, str], ...] = ()  # what the look-up tool knows

    @property
    def questions(self) -> tuple[Question, ...]:
        """All of them, group by group."""
        return tuple(each for group in self.groups for each in group.questions)

    @property
    def choosable(self) -> bool:
        """Whether every question has choices."""
        return all(each.choices for each in self.questions)

    @property
    def chains(self) -> bool:
        """Whether its examples are worked."""
        return all(each.worked for group in self.groups for each in group.examples)

    @property
    def tools(self) -> bool:
        """Whether its examples call a tool."""
        return all(each.call for group in self.groups for each in group.examples)


@functools.cache
def keys() -> tuple[str, ...]:
    """Return the sets, those for the small bundled model first."""
    found = sorted(path.stem for path in FOLDER.glob("*.toml"))
    return tuple(sorted(found, key=lambda key: (question_set(key).model != "tinygpt", key)))


@public()
@functools.cache
def question_set(key: str) -> QuestionSet:
    """Return a set by its key. Raises InputError for a key that is none."""
    path = FOLDER / f"{key}.toml"
    if not key.isidentifier() or not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.toml")))
        raise InputError("There is no question set of this name.", shown(key), say("Choose one of: {}.", known))
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = tuple(
        Group(
            tuple(Example(**each) for each in group["examples"]),
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
    """Return a question of a file; `choices` are those of the whole set."""
    return Question(read["text"], read["answer"], tuple(read.get("choices", choices)), tuple(read.get("accepted", ())))
