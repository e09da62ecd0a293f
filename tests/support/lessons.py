"""Lessons as a visitor who knows the answers takes them."""

from viz.lessons.check import start
from viz.lessons.lesson import Lesson, Question
from viz.lessons.values import entered, value_of
from viz.seam.playground import Playground


def right(playground: Playground, lesson: Lesson, question: Question) -> str:
    """The right answer, as it is typed or chosen."""
    value, show = value_of(playground, lesson, question.answer, start(lesson)), lesson.values[question.answer].show
    if question.kind == "number":
        return f"{entered(value, show):.8g}"
    return ".".join(map(str, value)) if question.kind == "head" else value
