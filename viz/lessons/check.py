"""Checks of lessons: their files and, with a model, the answers to their questions."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from model.errors import PlaygroundError
from viz.lessons import runs
from viz.lessons.answers import read, same
from viz.lessons.faults import Fault
from viz.lessons.lesson import Lesson, LessonQuestion
from viz.lessons.reading import read_folder
from viz.lessons.values import start, value_of, written
from viz.work.playground import Options, Playground

Lessons = Mapping[str, Mapping[str, Lesson]]


def faults_of(folder: Path) -> tuple[Lessons, list[Fault]]:
    """Read the lessons of a folder; return them and the faults in their files."""
    lessons, faults = read_folder(folder)
    if not lessons and not faults:
        faults = [Fault(str(folder), "", "There is no lesson here: a lesson is a file KEY.LANGUAGE.toml.")]
    return lessons, faults


def computed(lessons: Lessons, playground: Playground | None = None) -> list[Fault]:
    """Find the faults that appear when the model computes every answer. Each lesson is checked in one language."""
    ours = playground or Playground(Options(offline=True))
    try:
        return [
            fault for by_language in lessons.values() for fault in _computed(ours, next(iter(by_language.values())))
        ]
    finally:
        if playground is None:
            ours.workshop.close()


def _computed(playground: Playground, lesson: Lesson) -> list[Fault]:
    file = f"{lesson.key}.{lesson.language}.toml"
    results, faults = {}, []
    try:
        page = dataclasses.replace(start(lesson), runs=runs.prepare(playground, lesson))
    except PlaygroundError as error:
        return [Fault(file, "run", str(error))]
    for name, value in lesson.values.items():
        try:
            results[name] = value_of(playground, lesson, name, page)
            written(results[name], value.show)
        except PlaygroundError as error:
            faults.append(Fault(file, f"value.{name}", str(error)))
        except (TypeError, ValueError):
            faults.append(Fault(file, f"value.{name}.show", f"What was computed cannot be shown so: {results[name]}."))
    return faults or judged(lesson, results)


def judged(lesson: Lesson, results: Mapping[str, object]) -> list[Fault]:
    """Find the faults of a lesson given the computed values: in its band, its questions, and its known mistakes."""
    file, faults = f"{lesson.key}.{lesson.language}.toml", []
    striking = results[lesson.band.of]
    if not isinstance(striking, int | float) or not lesson.band.low <= striking <= lesson.band.high:
        low, high = lesson.band.low, lesson.band.high
        faults.append(Fault(file, "band", f"The model gives {striking}, which is not from {low} to {high}."))
    for step in lesson.steps:
        for name in ("ask", "check"):
            if question := getattr(step, name):
                where = f"step.{step.id}.{name}"
                faults += [Fault(file, where, what) for what in _question_faults(lesson, question, results)]
    for name, question in lesson.reviews.items():
        faults += [Fault(file, f"review.{name}", what) for what in _question_faults(lesson, question, results)]
    return faults


def _question_faults(lesson: Lesson, question: LessonQuestion, results: Mapping) -> list[str]:
    """Find the faults of a question's answer on the model."""
    answer, show = results[question.answer], lesson.values[question.answer].show
    if question.kind == "choice":
        return [] if answer in question.choices else [f"The answer is “{answer}”, which is none of the choices."]
    fits = {"number": isinstance(answer, int | float), "token": isinstance(answer, str), "head": _is_head(answer)}
    if not fits[question.kind]:
        return [f"The answer is {answer!r}, which is no {question.kind}."]
    mistakes = []
    for name in question.wrong:
        value, how = results[name], lesson.values[name].show
        answered = (
            read(str(100 * value if how == "percent" else value), "number") if question.kind == "number" else value
        )
        if answered is not None and same(question, answered, answer, show):
            mistakes.append(f"The mistake “{name}” cannot be told from the right answer.")
    return mistakes


def _is_head(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2
