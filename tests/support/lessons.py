"""Lessons as a visitor who knows the answers takes them."""

from functools import cache

from gradio_client import Client

from viz.lessons.check import start
from viz.lessons.lesson import Lesson, LessonQuestion
from viz.lessons.operations import apply, derived, taken
from viz.lessons.values import entered, value_of
from viz.work.playground import Playground


def right(playground: Playground, lesson: Lesson, question: LessonQuestion) -> str:
    """The right answer, as it is typed or chosen."""
    return entry(value_of(playground, lesson, question.answer, start(lesson)), lesson, question)


def right_of_runs(url: str, runs: list[dict], lesson: Lesson, question: LessonQuestion) -> str:
    """The same for a lesson that trains, from the runs of the page."""
    return entry(of_runs(url, runs, lesson, question.answer), lesson, question)


def of_runs(url: str, runs: list[dict], lesson: Lesson, wanted: str) -> object:
    """A value of a lesson that trains, from the runs of the page, oldest first, as the app tells programs of them.

    One run of a reward is not like the next, to the last digit: only the page's own has the answer.
    """
    client = client_of(url)
    parts = {
        name: [each for each in lesson.runs if lesson.runs[each].part == run.part] for name, run in lesson.runs.items()
    }
    numbers = {name: [r["id"] for r in runs if r["part"] == lesson.runs[name].part] for name in lesson.runs}

    def value(name: str):
        of = lesson.values[name]
        if of.of:
            return derived(of.make, {each: value(each) for each in of.of})
        run = of.arguments["run"]["run"]
        number = numbers[run][parts[run].index(run)]
        return apply(of.make, taken(client.predict(number, api_name=f"/{of.call}"), of.take))

    return value(wanted)


@cache
def client_of(url: str) -> Client:
    """A program that asks the app; it takes a second to set one up."""
    return Client(url, verbose=False, httpx_kwargs={"timeout": 60})


def entry(value: object, lesson: Lesson, question: LessonQuestion) -> str:
    """A value as it is typed or chosen."""
    show = lesson.values[question.answer].show
    if question.kind == "number":
        return f"{entered(value, show):.8g}"
    return ".".join(map(str, value)) if question.kind == "head" else value
