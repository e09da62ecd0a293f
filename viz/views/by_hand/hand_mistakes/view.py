"""Find the mistake: worked examples with one wrong number or row, checked by computing."""

from collections.abc import Mapping
from typing import Annotated

from model.by_hand.mistakes import MISTAKES, Answer, Exercise, exercise
from model.by_hand.mistakes import answer as checked
from model.by_hand.numbers import Constant, Ref
from model.by_hand.steps import Step
from viz.numbers import typed as written
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.view import Asking, Payload, Seen, View
from viz.words import Words
from viz.work.playground import Playground

DIGITS = 5  # of a right number, one or two more than the exercise shows


def read(sent: object, scene: Scene) -> tuple[str, tuple[int, int] | None]:
    """Return the exercise that a page chose, and the line and column of the number that was picked."""
    values = sent if isinstance(sent, Mapping) else {}
    name, cell = values.get("exercise"), values.get("cell")
    name = name if isinstance(name, str) and name in MISTAKES else next(iter(MISTAKES))
    if not isinstance(cell, list) or len(cell) != 2 or not all(type(n) is int for n in cell):
        return name, None
    line, column = cell
    rows = exercise(name).rows
    there = 0 <= line < len(rows) and 0 <= column < len(rows[line].texts)
    return name, (line, column) if there else None


def draw(seen: Seen) -> Payload:
    """Return the table with the mistake, and what there is to say of the number that was picked."""
    name, cell = seen.settings.exercise
    words, made = seen.words, exercise(name)
    symbols = {each.name: each for each in (*made.given, *made.steps)}
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
            for row in made.rows
        ],
        "picked": list(cell) if cell else None,
        "answer": None,
        "words": words.within("exercise").plain(),
        "title": names[name],
    }
    if cell:
        told = checked(made, *cell)
        payload["answer"] = {"found": told.wrong, **_said(words, name, made, told)}
    return payload


def _label(step: Step, row: int) -> str:
    return step.rows[row] if step.rows and len(step.cells) > 1 else ""


def _about(words: Words, step: Step) -> str:
    return words[f"steps.{step.about}" if step.about else f"tables.{step.name}"]


def _said(words: Words, name: str, made: Exercise, told: Answer) -> dict:
    """Return the sentence about a number, and the calculation of the right one."""
    here, right = words.within("exercise"), written(told.right, DIGITS)
    by_name = {each.name: each for each in (*made.given, *made.steps)}
    formula = _formula(by_name[told.step], told.row, told.column, by_name)
    values = {"shown": told.shown.replace("-", "−"), "right": right}
    if told.wrong:
        return {"text": here["found_it"].format(**values), "why": words[f"why.{name}"], "formula": formula}
    key = "right_there" if formula else "given_there"
    return {"text": here[key].format(**values), "why": here["look_on"], "formula": formula}


def _formula(step: Step, row: int, column: int, steps: Mapping[str, Step]) -> str:
    """Return the calculation of a cell in numbers: "(0.8 × 0.9 + …) / 2 = 1.4"; "" for a number that was given."""
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
    """Return an exercise of Find the mistake, with its solution.

    Args:
        exercise_name: Which one.

    Returns:
        rows: step, row, texts (as shown, with the mistake in them); wrong: line, column, shown and right of each number
        that is further from the right one than rounding explains.
    """
    made = exercise(exercise_name)
    answers = [
        (line, column, checked(made, line, column))
        for line, row in enumerate(made.rows)
        for column in range(len(row.texts))
    ]
    return {
        "rows": [{"step": row.step, "row": row.row, "texts": list(row.texts)} for row in made.rows],
        "wrong": [
            {"line": line, "column": column, "shown": told.shown, "right": float(told.right)}
            for line, column, told in answers
            if told.wrong
        ],
    }


VIEW = View(
    "hand_mistakes",
    layout=("exercise",),
    parts={"exercise": Asking("handmistake", read, draw, settings=("exercise",))},
    api=(Endpoint(by_hand_mistake, reads="server", kind="computed"),),
)
