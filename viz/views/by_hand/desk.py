"""What the views of the tab share: the tables to type into, the steps with their formulas, and an endpoint's answer.

A view names a sheet of model.by_hand.sheets and the settings that its calculation takes; all else follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from model.by_hand.numbers import Constant, Piece, Ref, Value
from model.by_hand.sheets import SHEETS, Sheet, example, worked
from model.by_hand.steps import Step
from model.by_hand.tables import LONGEST, LONGEST_NAME, MOST, Table, Typed, problems
from model.by_hand.writing import as_latex, as_numpy
from model.errors import InputError, say
from model.text.surrogates import whole
from viz.numbers import typed as written
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Check, Choice, Range, Setting, Settings
from viz.seam.view import Asking, Custom, Measure, Payload, Seen, View
from viz.words import Words, translate

DIGITS = Range("digits", 2, 30, default=4)
FRACTIONS = Check("fractions")
STABLE = Check("stable", True)
KIND = Choice("kind", ("exact", "float16", "float32", "float64"))
_ALL = 30  # digits of a number that is pointed at


@dataclass(frozen=True)
class Worked:
    """What was given and every step, in their order."""

    given: tuple[Step, ...]
    steps: tuple[Step, ...]


def read(sheet: Sheet, sent: object) -> Typed:
    """What a page sent as typed tables; whatever does not fit is the example's. Cells are checked where they count."""
    values = sent if isinstance(sent, Mapping) else {}
    name = values.get("example")
    usual = example(sheet, name if isinstance(name, str) and name in sheet.examples else next(iter(sheet.examples)))
    tables = values.get("tables")
    own = tables if isinstance(tables, Mapping) else {}
    names = values.get("names")
    given = tuple(_text(each, LONGEST_NAME) for each in names[:MOST]) if isinstance(names, list) else usual.names
    return Typed(usual.example, tuple((key, _rows(own.get(key)) or rows) for key, rows in usual.tables), given)


def _rows(sent: object) -> tuple[tuple[str, ...], ...]:
    """Return a table's cells as texts, one row and column more than may be; () for what is no table."""
    rows = sent[: MOST + 1] if isinstance(sent, list) else []
    if not all(isinstance(row, list) for row in rows):
        return ()
    return tuple(tuple(_text(each, LONGEST) for each in row[: MOST + 1]) for row in rows)


def _text(sent: object, most: int) -> str:
    return whole(sent[:most]) if isinstance(sent, str) else ""


# --- drawing ---


def desk(seen: Seen, sheet: Sheet, key: str) -> Payload:
    """Return the tables to type into, what is wrong in them, and the examples."""
    typed: Typed = seen.settings.desk
    words = Words(seen.all_words, "hand")
    used = [sheet.tables[name] for name, _ in typed.tables]
    dimensions = dict.fromkeys(d for table in used for d in (table.rows, table.columns) if d != "1")
    usual = example(sheet, typed.example)

    def said(text: str) -> str:
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
            [each.table, each.row, each.column, said(each.what), said(each.hint)]
            for each in problems(typed, sheet.tables)
        ],
        "words": words.within("desk").plain(),
    }


def steps(seen: Seen) -> Payload:
    """Return every step with its numbers, and what each was made of."""
    result: Worked = seen.result
    words = Words(seen.all_words, "hand")
    listed = (*result.given, *result.steps)
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
        "python": as_numpy({each.name: each for each in result.given}, result.steps),
        "latex": as_latex({each.name: each for each in result.given}, result.steps, texts),
    }


def in_full(value: Value) -> str:
    """Return a number with thirty digits; a fraction that does not end within them as what it is."""
    endless = isinstance(value, Fraction) and 10**_ALL % value.denominator != 0
    return written(value, _ALL, endless)


def desk_view(sheet_name: str, settings: tuple[Setting, ...], endpoint: Endpoint) -> View:
    """Return the view of a sheet; `settings` are the options of its calculation by their names."""
    sheet = SHEETS[sheet_name]
    names = tuple(each.name for each in settings)

    def measure(scene: Scene, chosen: Settings) -> Worked:
        given, made = worked(sheet, chosen.desk, {name: chosen[name] for name in names})
        return Worked(tuple(given.values()), made)

    return View(
        f"hand_{sheet_name}",
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
    """Return the calculation on the tables of an example, those given in place of its own; raises InputError."""
    sheet = SHEETS[sheet_name]
    name = start or next(iter(sheet.examples))
    if name not in sheet.examples:
        raise InputError("There is no such example.", name, say("Choose one of: {}.", ", ".join(sheet.examples)))
    usual = example(sheet, name)
    own = dict(_table(each, sheet.tables) for each in tables)
    listed = tuple((key, own.pop(key, rows)) for key, rows in usual.tables)
    if own:
        keys = ", ".join(key for key, _ in usual.tables)
        raise InputError("This example has no such table.", next(iter(own)), say("Its tables are: {}.", keys))
    given, made = worked(sheet, Typed(name, listed, usual.names), options)
    return {
        "example": name,
        "given": {each.name: _numbers(each) for each in given.values()},
        "steps": [{"name": each.name, "formula": each.formula, **_numbers(each)} for each in made],
        "numpy": as_numpy(given, made),
    }


def _table(sent: Mapping[str, Any], tables: Mapping[str, Table]) -> tuple[str, tuple[tuple[str, ...], ...]]:
    name, rows = sent.get("name"), sent.get("rows")
    if name not in tables or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(
            "A table needs a name and rows.", str(name)[:LONGEST], 'Give {"name": "Q", "rows": [[1, 0], [0, 1]]}.'
        )
    texts = tuple(tuple(str(cell)[:LONGEST] for cell in row[: MOST + 1]) for row in rows[: MOST + 1])
    return str(name), texts


def _numbers(of: Step) -> dict:
    return {
        "numbers": [[float(cell.value) for cell in row] for row in of.cells],
        "exact": [[in_full(cell.value).replace("−", "-") for cell in row] for row in of.cells],
    }
