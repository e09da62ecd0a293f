"""A check asks what the panel has not said: a reader who types what stands there solves hardly any."""

import re
from collections.abc import Callable

import pytest

from model.loading.sources import available
from viz.lessons.answers import judged
from viz.lessons.lesson import Lesson, LessonStep
from viz.lessons.library import library
from viz.lessons.text import NAMED, names_in
from viz.lessons.values import start, value_of, written
from viz.words import section, words
from viz.work.playground import Options, Playground

LESSONS = {key: each["en"] for key, each in library().lessons.items() if each["en"].model in available()}
WORDS = section(words("en"), "learn")
MOST = 0.2  # share of the checks that may be solved by copying
_NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?")
_HEAD = re.compile(r"\d+\.\d+")
_TOKEN = re.compile(r"[^\s“”`.,:;?!()]+")


@pytest.fixture(scope="module")
def playground():
    ours = Playground(Options(offline=True))
    yield ours
    ours.workshop.close()


def panel(lesson: Lesson, step: LessonStep, shown: Callable[[str], str], result: str) -> list[str]:
    """Every text that stands in the panel before the check is answered, with its values as they are filled in."""
    texts = [lesson.opens, step.do, step.see, *step.hints, *step.check.hints]
    if step.ask:
        texts += [step.ask.text, result]
    return [NAMED.sub(lambda match: shown(match[1]), text) for text in texts]


def typed(kind: str, texts: list[str]) -> set[str]:
    """All answers that can be copied from these texts."""
    found = {"number": _NUMBER, "head": _HEAD, "token": _TOKEN}.get(kind)
    return {each for text in texts for each in (found.findall(text) if found else [text])}


def is_copied(lesson: Lesson, step: LessonStep, value: Callable) -> bool:
    """True if something that the panel says is the right answer to the check."""

    def shown(name: str) -> str:
        return written(value(name), lesson.values[name].show)

    asked, check = step.ask, step.check
    result = ""
    if asked:
        answer = value(asked.answer)
        result = asked.choices[answer] if asked.kind == "choice" else shown(asked.answer)
    texts = panel(lesson, step, shown, result)
    if check.kind == "choice":
        right = check.choices[value(check.answer)].casefold()
        return any(right in text.casefold() for text in texts)
    given = typed(check.kind, [*texts, NAMED.sub(lambda match: shown(match[1]), check.text)])
    return any(judged(lesson, check, each, value, WORDS).right for each in given)


def test_what_the_panel_says_answers_few_checks(playground):
    copied, checks = [], 0
    for lesson in LESSONS.values():
        for step in (each for each in lesson.steps if each.check):
            checks += 1
            if lesson.runs:  # trained where it is taken; here, only a value that the panel names counts
                said = [lesson.opens, step.do, step.see, *step.hints, *step.check.hints]
                said += [f"{{{step.ask.answer}}}"] if step.ask else []
                found = step.check.answer in {name for text in said for name in names_in(text)}
            else:
                found = is_copied(lesson, step, lambda name, of=lesson: value_of(playground, of, name, start(of)))
            copied += [f"{lesson.key}.{step.id}"] if found else []
    assert len(copied) < MOST * checks, f"{len(copied)} of {checks}: {', '.join(copied)}"
