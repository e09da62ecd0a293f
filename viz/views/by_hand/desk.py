"""The parts shared by the views of this tab: editable tables, steps with formulas, and the answer of an endpoint.

A view specifies a sheet of model.by_hand.sheets and the settings of its calculation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from model.by_hand.numbers import Constant, Piece, Ref, Value
from model.by_hand.sheets import SHEETS, Sheet, example, worked
from model.by_hand.steps import MatrixStep
from model.by_hand.tables import LONGEST, LONGEST_NAME, MOST, Table, Typed, problems
from model.by_hand.writing import as_latex, as_numpy
from model.errors import InputError, say
from model.text.surrogates import whole
from viz.numbers import typed as written
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Range, Setting, Settings
from viz.seam.view import Asking, Custom, Measure, Payload, Seen, View
from viz.words import Words, translate

DIGITS = Range("digits", 2, 30, default=4)
FRACTIONS = Checkbox("fractions")
STABLE = Checkbox("stable", True)
KIND = Choice("kind", ("exact", "float16", "float32", "float64"))
_ALL = 30  # number of digits on hover


@dataclass(frozen=True)
class Worked:
    """The input tables and every step of a calculation, in order."""

    inputs: tuple[MatrixStep, ...]
    steps: tuple[MatrixStep, ...]


def read(sheet: Sheet, sent: object) -> Typed:
    """Parse the tables sent by a page, with those of the example in place of malformed ones.

    The cells are validated later.
    """
    values = sent if isinstance(sent, Mapping) else {}
    name = values.get("example")
    usual = example(sheet, name if isinstance(name, str) and name in sheet.examples else next(iter(sheet.examples)))
    tables = values.get("tables")
    own = tables if isinstance(tables, Mapping) else {}
    names = values.get("names")
    row_names = tuple(_text(each, LONGEST_NAME) for each in names[:MOST]) if isinstance(names, list) else usual.names
    return Typed(usual.example, tuple((key, _rows(own.get(key)) or rows) for key, rows in usual.tables), row_names)


def _rows(sent: object) -> tuple[tuple[str, ...], ...]:
    """Return a table's cells as strings, at most one row and column beyond the limit; () for a malformed table."""
    rows = sent[: MOST + 1] if isinstance(sent, list) else []
    if not all(isinstance(row, list) for row in rows):
        return ()
    return tuple(tuple(_text(each, LONGEST) for each in row[: MOST + 1]) for row in rows)


def _text(sent: object, most: int) -> str:
    return whole(sent[:most]) if isinstance(sent, str) else ""


# --- parts ---


def desk(seen: Seen, sheet: Sheet, key: str) -> Payload:
    """Build the payload of the editable tables, the problems in them, and the examples."""
    typed: Typed = seen.settings.desk
    words = Words(seen.all_words, "hand")
    used = [sheet.tables[name] for name, _ in typed.tables]
    dimensions = dict.fromkeys(d for table in used for d in (table.rows, table.columns) if d != "1")
    usual = example(sheet, typed.example)

    def translated(text: str) -> str:
        return translate(text, seen.facts.language)

    return {
        "example": typed.example,
        "examples": [[name, words[f"examples.{key}_{name}"]] for name in sheet.examples],
        "tables": [
            {
                "name": name,
                "symbol": sheet.tables[name].symbol,
                "about": words.get(f"tables.{key}_{name}") or words[f"tables.{name}"],
                "rows": sheet.tables[name].rows,
                "columns": sheet.tables[name].columns,
                "usual": [list(row) for row in rows],
            }
            for name, rows in usual.tables
        ],
        "names": list(usual.names),
        "named": sheet.named,
        "dimensions": [[d, words[f"dimensions.{d}"]] for d in dimensions],
        "most": MOST,
        "problems": [
            [each.table, each.row, each.column, translated(each.what), translated(each.hint)]
            for each in problems(typed, sheet.tables)
        ],
        "words": words.within("desk").plain(),
    }


def steps(seen: Seen) -> Payload:
    """Build the payload of every step: its formula, its numbers, and the operands of each number."""
    result: Worked = seen.result
    words = Words(seen.all_words, "hand")
    listed = (*result.inputs, *result.steps)
    places = {each.name: n for n, each in enumerate(listed)}
    digits, fractions = seen.settings.digits, seen.settings.fractions

    def piece(of: Piece) -> Any:
        if isinstance(of, Ref):
            return [places[of.name], of.row, of.column]
        if isinstance(of, Constant):
            return {"sign": of.symbol, "number": written(of.value, digits, fractions)}
        return of

    texts = {
        each.name: [[written(cell.value, digits, fractions) for cell in row] for row in each.cells] for each in listed
    }
    return {
        "title": words["steps_title"],
        "steps": [
            {
                "name": each.name,
                "symbol": each.symbol,
                "title": words[f"steps.{each.about}"] if each.about else "",
                "formula": each.formula,
                "rows": list(each.rows),
                "columns": list(each.columns),
                "fresh": list(each.fresh),
                "cells": [
                    [
                        [text, in_full(cell.value), [piece(of) for of in cell.made]]
                        for text, cell in zip(shown, row, strict=True)
                    ]
                    for shown, row in zip(texts[each.name], each.cells, strict=True)
                ],
            }
            for each in listed
        ],
        "example": seen.settings.desk.example,
        "words": words.within("shown").plain(),
        "source": words["source"],
        "file": f"by-hand-{seen.view.removeprefix('hand_')}",
        "python": as_numpy({each.name: each for each in result.inputs}, result.steps),
        "latex": as_latex({each.name: each for each in result.inputs}, result.steps, texts),
    }


def in_full(value: Value) -> str:
    """Format a number with thirty digits; a fraction with a longer decimal expansion stays a fraction."""
    endless = isinstance(value, Fraction) and 10**_ALL % value.denominator != 0
    return written(value, _ALL, endless)


def desk_view(sheet_name: str, settings: tuple[Setting, ...], endpoint: Endpoint) -> View:
    """Build the view of a sheet. `settings` are the options of its calculation."""
    sheet = SHEETS[sheet_name]
    names = tuple(each.name for each in settings)

    def measure(scene: Scene, chosen: Settings) -> Worked:
        inputs, steps_made = worked(sheet, chosen.desk, {name: chosen[name] for name in names})
        return Worked(tuple(inputs.values()), steps_made)

    return View(
        f"hand_{sheet_name}",
        needs=(),
        settings=settings,
        tab_settings=(DIGITS, FRACTIONS),
        measures=(Measure("main", measure, (), ("desk", *names), locks=False),),
        layout=("desk", *(("form",) if settings else ()), "steps"),
        parts={
            "desk": Asking(
                "handdesk",
                lambda sent, scene: read(sheet, sent),
                lambda seen: desk(seen, sheet, sheet_name),
                settings=("desk",),
            ),
            "steps": Custom("handsteps", steps, settings=("desk", "digits", "fractions")),
        },
        api=(endpoint,),
    )


# --- for programs ---


def answer(sheet_name: str, start: str, tables: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict:
    """Run a calculation on the tables of an example, with the given `tables` in place of those of the same name.

    Raises InputError for unknown names.
    """
    sheet = SHEETS[sheet_name]
    name = start or next(iter(sheet.examples))
    if name not in sheet.examples:
        raise InputError("This example does not exist.", name, say("Choose one of: {}.", ", ".join(sheet.examples)))
    usual = example(sheet, name)
    own = dict(_table(each, sheet.tables) for each in tables)
    listed = tuple((key, own.pop(key, rows)) for key, rows in usual.tables)
    if own:
        keys = ", ".join(key for key, _ in usual.tables)
        raise InputError("This example has no such table.", next(iter(own)), say("Its tables are: {}.", keys))
    inputs, computed = worked(sheet, Typed(name, listed, usual.names), options)
    return {
        "example": name,
        "given": {each.name: _as_numbers(each) for each in inputs.values()},
        "steps": [{"name": each.name, "formula": each.formula, **_as_numbers(each)} for each in computed],
        "numpy": as_numpy(inputs, computed),
    }


def _table(sent: Mapping[str, Any], tables: Mapping[str, Table]) -> tuple[str, tuple[tuple[str, ...], ...]]:
    name, rows = sent.get("name"), sent.get("rows")
    if name not in tables or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(
            "A table needs a name and rows.", str(name)[:LONGEST], 'Give {"name": "Q", "rows": [[1, 0], [0, 1]]}.'
        )
    texts = tuple(tuple(str(cell)[:LONGEST] for cell in row[: MOST + 1]) for row in rows[: MOST + 1])
    return str(name), texts


def _as_numbers(of: MatrixStep) -> dict:
    return {
        "numbers": [[float(cell.value) for cell in row] for row in of.cells],
        "exact": [[in_full(cell.value).replace("−", "-") for cell in row] for row in of.cells],
    }
