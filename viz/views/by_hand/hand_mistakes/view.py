"""Find the mistake: worked examples with one wrong number or row, and a check of the visitor's selection."""

from collections.abc import Mapping
from typing import Annotated

from model.by_hand.mistakes import MISTAKES, ClickAnswer, Exercise, exercise
from model.by_hand.mistakes import answer as checked
from model.by_hand.numbers import Constant, Ref
from model.by_hand.steps import MatrixStep
from viz.numbers import typed as written
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.view import Asking, Payload, Seen, View
from viz.words import Words
from viz.work.playground import Playground

DIGITS = 5  # digits of a correct number, one or two more than in the exercise


def read(sent: object, scene: Scene) -> tuple[str, tuple[int, int] | None]:
    """Parse the exercise selected on the page, and the line and column of the selected number, or None without one."""
    values = sent if isinstance(sent, Mapping) else {}
    name, cell = values.get("exercise"), values.get("cell")
    name = name if isinstance(name, str) and name in MISTAKES else next(iter(MISTAKES))
    if not isinstance(cell, list) or len(cell) != 2 or not all(type(n) is int for n in cell):
        return name, None
    line, column = cell
    rows = exercise(name).rows
    exists = 0 <= line < len(rows) and 0 <= column < len(rows[line].texts)
    return name, (line, column) if exists else None


def draw(seen: Seen) -> Payload:
    """Build the payload of the exercise: the table with the mistake, and the reply to the selected number."""
    name, cell = seen.settings.exercise
    words, current = seen.words, exercise(name)
    symbols = {each.name: each for each in (*current.given, *current.steps)}
    names, shared = words.within("names"), Words(seen.all_words, "hand")
    payload: Payload = {
        "exercise": name,
        "exercises": [[each, names[each]] for each in MISTAKES],
        "task": words[f"tasks.{name}"],
        "rows": [
            {
                "symbol": symbols[row.step].symbol,
                "label": _label(symbols[row.step], row.row),
                "about": _about(shared, symbols[row.step]) if row.row == 0 else "",
                "texts": list(row.texts),
            }
            for row in current.rows
        ],
        "picked": list(cell) if cell else None,
        "answer": None,
        "words": words.within("exercise").plain(),
        "title": names[name],
    }
    if cell:
        reply = checked(current, *cell)
        payload["answer"] = {"found": reply.wrong, **_reply(words, name, current, reply)}
    return payload


def _label(step: MatrixStep, row: int) -> str:
    return step.rows[row] if step.rows and len(step.cells) > 1 else ""


def _about(words: Words, step: MatrixStep) -> str:
    return words[f"steps.{step.about}" if step.about else f"tables.{step.name}"]


def _reply(words: Words, name: str, current: Exercise, answer: ClickAnswer) -> dict:
    """Build the reply to a selected number: a sentence, an explanation, and the calculation of the correct value."""
    texts, right = words.within("exercise"), written(answer.right, DIGITS)
    by_name = {each.name: each for each in (*current.given, *current.steps)}
    formula = _formula(by_name[answer.step], answer.row, answer.column, by_name)
    values = {"shown": answer.shown.replace("-", "−"), "right": right}
    if answer.wrong:
        return {"text": texts["found_it"].format(**values), "why": words[f"why.{name}"], "formula": formula}
    key = "right_there" if formula else "given_there"
    return {"text": texts[key].format(**values), "why": texts["look_on"], "formula": formula}


def _formula(step: MatrixStep, row: int, column: int, steps: Mapping[str, MatrixStep]) -> str:
    """Format the calculation of a cell with numbers, such as "(0.8 × 0.9 + …) / 2 = 1.4"; "" for an input."""
    cell = step.cells[row][column]
    if not cell.made:
        return ""
    text = ""
    for each in cell.made:
        if isinstance(each, str):
            text += each
        else:
            value = each.value if isinstance(each, Constant) else steps[each.name].cells[each.row][each.column].value
            shown = written(value, DIGITS)
            text += f"({shown})" if isinstance(each, Ref) and value < 0 and text else shown
    return f"{text} = {written(cell.value, DIGITS)}"


def by_hand_mistake(
    playground: Playground, exercise_name: Annotated[str, OneOf(tuple(MISTAKES))] = "layer_spread"
) -> dict:
    """Return an exercise of the view Find the mistake, with its solution.

    Args:
        exercise_name: Name of the exercise.

    Returns:
        rows: step, row, texts (as displayed, including the mistake); wrong: line, column, shown (displayed value) and
        right (correct value) of each number whose error exceeds rounding.
    """
    current = exercise(exercise_name)
    answers = [
        (line, column, checked(current, line, column))
        for line, row in enumerate(current.rows)
        for column in range(len(row.texts))
    ]
    return {
        "rows": [{"step": row.step, "row": row.row, "texts": list(row.texts)} for row in current.rows],
        "wrong": [
            {"line": line, "column": column, "shown": answer.shown, "right": float(answer.right)}
            for line, column, answer in answers
            if answer.wrong
        ],
    }


VIEW = View(
    "hand_mistakes",
    needs=(),
    layout=("exercise",),
    parts={"exercise": Asking("handmistake", read, draw, settings=("exercise",))},
    api=(Endpoint(by_hand_mistake, reads="server", kind="computed"),),
)
