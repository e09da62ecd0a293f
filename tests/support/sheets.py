"""Sheets of the tab By hand, as numbers."""

import numpy as np
from hypothesis import strategies as st

from model.by_hand.sheets import SHEETS, Typed, example, worked


def array(step) -> np.ndarray:
    """Return the numbers of a step as floats."""
    return np.array([[float(cell.value) for cell in row] for row in step.cells])


def of(sheet, name, **options):
    """Return the numbers of all tables and steps of an example, by name."""
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    return {name: array(step) for name, step in given_.items()} | {step.name: array(step) for step in steps}


def typed(tables, names=()):
    """Return tables as a page sends them."""
    return Typed("", tuple((key, tuple(tuple(map(str, row)) for row in rows)) for key, rows in tables.items()), names)


small = st.integers(-30, 30).map(lambda n: n / 10)


def tables(rows, columns):
    """Return a strategy for tables of small decimals."""
    return st.lists(st.lists(small, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
