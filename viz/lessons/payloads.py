"""The lessons as payloads: the list, one lesson without its answers, and the responses to actions and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viz.lessons.answers import closeness, judged
from viz.lessons.lesson import Lesson, LessonQuestion, LessonStep
from viz.lessons.library import Library
from viz.lessons.text import Piece, names_in, pieces
from viz.lessons.values import PageState, start, value_of, written
from viz.words import section, words
from viz.work.playground import Playground

WANTS = ("texts", "see", "check", "hint", "answer")
REVIEWS = ("review", "review_check")  # requests about a lesson that was finished earlier


def listed(library: Library, language: str) -> dict:
    """Build the list of lessons with their goals and durations, and the words of the lessons' panel."""
    rows = [
        {
            "key": each.key,
            "title": each.title,
            "goals": list(each.goals),
            "minutes": each.minutes,
            "part": each.part,
            "level": each.level,
            "needs": list(each.needs),
            "steps": len(each.steps),
            "reviews": list(each.reviews),
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
        "opens": lesson.opens,
        "level": lesson.level,
        "model": lesson.model,
        "state": dict(lesson.state),
        "own_prompt": any({"page": "prompt"} in each.arguments.values() for each in lesson.values.values()),
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
        "check_hints": len(step.check.hints) if step.check else 0,
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
    return [step.do, *(each.text for each in (step.ask, step.check) if each and not each.hidden)]


def _blank(text: str) -> list[Piece]:
    """Split a sentence into pieces, with an ellipsis for each value, for display before the values are computed."""
    return pieces(text, lambda name: "…")


def _question(lesson: Lesson, question: LessonQuestion | None) -> dict | None:
    if question is None:
        return None
    if question.hidden:
        return {"hidden": True, "text": [], "kind": "", "choices": [], "percent": False, "at": []}
    return _asked(lesson, question)


def _asked(lesson: Lesson, question: LessonQuestion) -> dict:
    return {
        "text": _blank(question.text),
        "kind": question.kind,
        "choices": [list(each) for each in question.choices.items()],
        "percent": lesson.values[question.answer].show == "percent",
        "at": list(question.at),
    }


# --- replies ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shown:
    """The values of a lesson on one page, and the words of the panel."""

    playground: Playground
    lesson: Lesson
    page: PageState
    owner: str
    words: Mapping[str, str]

    def value(self, name: str) -> Any:
        """Compute a value."""
        return value_of(self.playground, self.lesson, name, self.page, self.owner)

    def text(self, name: str) -> str:
        """Format a value."""
        return written(self.value(name), self.lesson.values[name].show)

    def pieces(self, text: str) -> list[Piece]:
        """Split a sentence into pieces with its values."""
        return pieces(text, self.text)

    def judged(self, question: LessonQuestion, sent: Mapping[str, Any]) -> dict:
        """Grade an answer."""
        tries = sent.get("tries")
        tries = tries if isinstance(tries, int) else 0
        verdict = judged(self.lesson, question, sent.get("given"), self.value, self.words, tries)
        return {"right": verdict.right, "understood": verdict.understood, "text": self.pieces(verdict.text)}

    def result(self, question: LessonQuestion | None) -> str:
        """Format the right answer."""
        if question is None:
            return ""
        return question.choices[self.value(question.answer)] if question.choices else self.text(question.answer)


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
    shown = _Shown(playground, lesson, page, owner, section(words(language), "learn"))
    want, check = sent.get("want"), step.check
    if want == "texts":
        texts = {"ask": step.ask and step.ask.text, "do": step.do}
        texts["check"] = check.text if check and not check.hidden else ""
        return {name: shown.pieces(text) for name, text in texts.items() if text}
    if want == "see":
        return _seen(shown, step, sent)
    if want == "hint":
        hints = check.hints if check and sent.get("of") == "check" else step.hints
        hints = hints or (shown.words["hint_look"],)
        n = sent.get("n")
        return {"hint": shown.pieces(hints[min(n, len(hints) - 1) if isinstance(n, int) and n >= 0 else -1])}
    told = {"why": shown.pieces(step.why), "result": shown.result(check)}
    if want == "answer":
        return {"right": False, "understood": True, "text": [], **told}
    if check is None:
        return {"right": True, "text": [], **told}
    answer = shown.judged(check, sent)
    return answer | told if answer["right"] else answer


def _seen(shown: _Shown, step: LessonStep, sent: Mapping[str, Any]) -> dict:
    """Build the observation, the grade of the guess and, once a guess was made, the text of a hidden check."""
    guess, check = sent.get("guess"), step.check
    seen = {"see": shown.pieces(step.see), "result": shown.result(step.ask), "guess": ""}
    if step.ask and isinstance(guess, str) and guess:
        seen["guess"] = closeness(shown.lesson, step.ask, guess, shown.value)
    if check and check.hidden and (guess or not step.ask):
        seen["check"] = _asked(shown.lesson, check) | {"text": shown.pieces(check.text)}
    return seen


def review_reply(
    playground: Playground, lesson: Lesson, question: LessonQuestion, sent: Mapping[str, Any], language: str, owner: str
) -> dict:
    """Build a review question, or the grade of its answer, on the lesson's own model and prompt, whatever the page
    shows. Raises PlaygroundError.
    """
    shown = _Shown(playground, lesson, start(lesson), owner, section(words(language), "learn"))
    if sent.get("want") == "review":
        return {"title": lesson.title, **_asked(lesson, question), "text": shown.pieces(question.text)}
    return shown.judged(question, sent) | {"result": shown.result(question)}
