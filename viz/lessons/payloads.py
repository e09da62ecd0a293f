"""The lessons as payloads: the list, one lesson without its answers, and the responses to actions and answers."""

from collections.abc import Mapping
from typing import Any

from viz.lessons.answers import judged
from viz.lessons.lesson import Lesson, LessonQuestion, LessonStep
from viz.lessons.library import Library
from viz.lessons.text import Piece, names_in, pieces
from viz.lessons.values import PageState, value_of, written
from viz.words import section, words
from viz.work.playground import Playground

WANTS = ("texts", "see", "check", "hint")


def listed(library: Library, language: str) -> dict:
    """Build the list of lessons with their goals and durations, and the words of the lessons' panel."""
    rows = [
        {
            "key": each.key,
            "title": each.title,
            "goals": list(each.goals),
            "minutes": each.minutes,
            "part": each.part,
            "needs": list(each.needs),
            "steps": len(each.steps),
        }
        for each in library.path(language)
    ]
    return {"lessons": rows, "words": section(words(language), "learn")}


def lesson_payload(lesson: Lesson) -> dict:
    """Build a lesson in the form in which the page presents it, without its values."""
    return {
        "key": lesson.key,
        "title": lesson.title,
        "goals": list(lesson.goals),
        "model": lesson.model,
        "state": dict(lesson.state),
        "steps": [_step(lesson, step) for step in lesson.steps],
    }


def _step(lesson: Lesson, step: LessonStep) -> dict:
    return {
        "id": step.id,
        "at": list(step.at),
        "do": _blank(step.do),
        "done": dict(step.done),
        **_begun(lesson, step),
        "show": dict(step.show),
        "hints": len(step.hints),
        "live": any(names_in(text) for text in _texts_of(step)),
        "ask": _question(lesson, step.ask),
        "check": _question(lesson, step.check),
    }


def _begun(lesson: Lesson, step: LessonStep) -> dict:
    """Build the state in which a step begins, including the filled-in form of its training run."""
    if not step.run:
        return {"state": None if step.state is None else dict(step.state), "run": None}
    run = lesson.runs[step.run]
    state = dict(step.state or {})
    state["values"] = {**state.get("values", {}), run.part: dict(run.values)}
    return {"state": state, "run": {"part": run.part, "values": dict(run.values)}}


def _texts_of(step: LessonStep) -> list[str]:
    """Return the sentences of a step that are shown before its action."""
    return [step.do, *(each.text for each in (step.ask, step.check) if each)]


def _blank(text: str) -> list[Piece]:
    """Split a sentence into pieces, with an ellipsis for each value, for display before the values are computed."""
    return pieces(text, lambda name: "…")


def _question(lesson: Lesson, question: LessonQuestion | None) -> dict | None:
    if question is None:
        return None
    return {
        "text": _blank(question.text),
        "kind": question.kind,
        "choices": [list(each) for each in question.choices.items()],
        "percent": lesson.values[question.answer].show == "percent",
        "at": list(question.at),
    }


# --- replies ---------------------------------------------------------------------------------------------


def reply(
    playground: Playground,
    lesson: Lesson,
    step: LessonStep,
    sent: Mapping[str, Any],
    page: PageState,
    language: str,
    owner: str,
) -> dict:
    """Build the response to a page: the observation after an action, the grade of an answer, or a hint.

    Everything is computed on demand by the model that the page shows; raises PlaygroundError.
    """

    def value(name: str) -> Any:
        return value_of(playground, lesson, name, page, owner)

    def shown(name: str) -> str:
        return written(value(name), lesson.values[name].show)

    if sent.get("want") == "texts":
        texts = {"ask": step.ask and step.ask.text, "do": step.do, "check": step.check and step.check.text}
        return {name: pieces(text, shown) for name, text in texts.items() if text}
    if sent.get("want") == "see":
        return {"see": pieces(step.see, shown), "result": _result(step.ask, value, shown)}
    if sent.get("want") == "hint":
        hints = {str(n): text for n, text in enumerate(step.hints)}
        return {"hint": pieces(hints.get(str(sent.get("n")), step.hints[-1]), shown)}
    if step.check is None:
        return {"right": True, "text": [], "why": pieces(step.why, shown), "result": ""}
    verdict = judged(lesson, step.check, sent.get("given"), value, section(words(language), "learn"))
    answer = {"right": verdict.right, "understood": verdict.understood, "text": pieces(verdict.text, shown)}
    if not verdict.right:
        return answer
    return answer | {"why": pieces(step.why, shown), "result": _result(step.check, value, shown)}


def _result(question: LessonQuestion | None, value: Any, shown: Any) -> str:
    """Format the correct answer."""
    if question is None:
        return ""
    return question.choices[value(question.answer)] if question.kind == "choice" else shown(question.answer)
