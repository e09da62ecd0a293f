"""A calculation as a list of steps, each a small matrix whose cells say what they were made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.by_hand.numbers import Number, Piece, Ref, Value, at


@dataclass(frozen=True)
class Cell:
    """One number, and its formula in cells of earlier steps; () for a number that was given."""

    value: Value
    made: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Step:
    """A matrix of the calculation.

    `name` is unique in it and a name of Python; `symbol` is how formulas write it: W_Q, Q^1. `latex` and `numpy` say
    the whole step: the right side of a formula, and a line that makes an array `name` of the earlier ones.
    """

    name: str
    symbol: str
    cells: tuple[tuple[Cell, ...], ...]
    about: str = ""  # key of its words; "" for what was given
    formula: str = ""
    latex: str = ""
    numpy: str = ""
    rows: tuple[str, ...] = ()  # their names; () for numbers from 1
    columns: tuple[str, ...] = ()
    fresh: tuple[int, ...] = ()  # rows that are new in this step

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.cells), len(self.cells[0])

    def at(self, row: int, column: int) -> Number:
        """Return the number in a cell, as later formulas name it."""
        return at(Ref(self.name, row, column), self.cells[row][column].value)

    def row(self, row: int) -> list[Number]:
        """Return the numbers of a row."""
        return [self.at(row, column) for column in range(self.shape[1])]

    def column(self, column: int) -> list[Number]:
        """Return the numbers of a column."""
        return [self.at(row, column) for row in range(self.shape[0])]

    def all_rows(self) -> list[list[Number]]:
        """Return all numbers."""
        return [self.row(row) for row in range(self.shape[0])]


@dataclass(frozen=True)
class Said:
    """How a step is named and written: see the fields of Step."""

    name: str
    symbol: str
    about: str
    formula: str
    latex: str
    numpy: str


def step(
    said: Said,
    numbers: Sequence[Sequence[Number]],
    rows: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    fresh: tuple[int, ...] = (),
) -> Step:
    """Return the step with these numbers in its cells."""
    cells = tuple(tuple(Cell(each.value, each.made) for each in row) for row in numbers)
    return Step(said.name, said.symbol, cells, said.about, said.formula, said.latex, said.numpy, rows, columns, fresh)


def given(name: str, symbol: str, values: Sequence[Sequence[Value]], rows=(), columns=()) -> Step:
    """Return a matrix that somebody typed."""
    return Step(name, symbol, tuple(tuple(map(Cell, row)) for row in values), rows=rows, columns=columns)


def each(function: Callable[[Number], Number], of: Step) -> list[list[Number]]:
    """Return the function of every cell."""
    return [[function(x) for x in row] for row in of.all_rows()]
