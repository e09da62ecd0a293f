"""A calculation as a list of steps, each a small matrix whose cells record their formulas."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from model.by_hand.numbers import Number, Piece, Ref, Value, at


@dataclass(frozen=True)
class Cell:
    """A number and its formula in terms of cells of earlier steps; () for an input."""

    value: Value
    made: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class MatrixStep:
    """A matrix of the calculation.

    `name` is unique within the calculation and a valid Python name; `symbol` is its notation in formulas, such as W_Q
    or Q^1. `latex` and `numpy` express the complete step: as the right-hand side of a formula, and as a line of code
    that computes the array `name` from earlier arrays.
    """

    name: str
    symbol: str
    cells: tuple[tuple[Cell, ...], ...]
    about: str = ""  # key of its description in the words; "" for an input
    formula: str = ""
    latex: str = ""
    numpy: str = ""
    rows: tuple[str, ...] = ()  # row names; () to number rows from 1
    columns: tuple[str, ...] = ()
    fresh: tuple[int, ...] = ()  # indices of rows that are new in this step

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.cells), len(self.cells[0])

    def at(self, row: int, column: int) -> Number:
        """Return the number in a cell, with a reference to the cell as its formula."""
        return at(Ref(self.name, row, column), self.cells[row][column].value)

    def row(self, row: int) -> list[Number]:
        """Return the numbers of a row."""
        return [self.at(row, column) for column in range(self.shape[1])]

    def column(self, column: int) -> list[Number]:
        """Return the numbers of a column."""
        return [self.at(row, column) for row in range(self.shape[0])]

    def all_rows(self) -> list[list[Number]]:
        """Return the numbers of all rows."""
        return [self.row(row) for row in range(self.shape[0])]


@dataclass(frozen=True)
class Notation:
    """Names and formulas of a step; see the fields of MatrixStep."""

    name: str
    symbol: str
    about: str
    formula: str
    latex: str
    numpy: str


def step(
    notation: Notation,
    numbers: Sequence[Sequence[Number]],
    rows: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    fresh: tuple[int, ...] = (),
) -> MatrixStep:
    """Build a step with the given numbers in its cells."""
    cells = tuple(tuple(Cell(each.value, each.made) for each in row) for row in numbers)
    return MatrixStep(
        notation.name,
        notation.symbol,
        cells,
        notation.about,
        notation.formula,
        notation.latex,
        notation.numpy,
        rows,
        columns,
        fresh,
    )


def input_step(name: str, symbol: str, values: Sequence[Sequence[Value]], rows=(), columns=()) -> MatrixStep:
    """Build the step for a table entered by the user."""
    return MatrixStep(name, symbol, tuple(tuple(map(Cell, row)) for row in values), rows=rows, columns=columns)


def each(function: Callable[[Number], Number], of: MatrixStep) -> list[list[Number]]:
    """Apply a function to each cell."""
    return [[function(x) for x in row] for row in of.all_rows()]


def renamed_step(of: MatrixStep, names: Mapping[str, str], mark: str) -> MatrixStep:
    """Replace the names of a step, of the cells in its formulas, and in its line of code; `mark` is its superscript.

    So a calculation can have the steps of another one twice.
    """
    words = re.compile(rf"\b(?:{'|'.join(names)})\b")

    def renamed(piece: Piece) -> Piece:
        return replace(piece, name=names.get(piece.name, piece.name)) if isinstance(piece, Ref) else piece

    return replace(
        of,
        name=names[of.name],
        symbol=f"{of.symbol.partition('^')[0]}^{mark}",
        cells=tuple(tuple(Cell(cell.value, tuple(map(renamed, cell.made))) for cell in row) for row in of.cells),
        numpy=words.sub(lambda found: names[found[0]], of.numpy),
    )
