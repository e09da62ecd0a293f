"""Tables entered by the user: bounds, parsing of their cells, and invalid cells."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from model.by_hand.steps import MatrixStep, input_step
from model.errors import InputError, say

MOST = 16  # maximum rows and columns of a table
LARGEST = 10**12  # maximum absolute value of a number
LONGEST = 40  # maximum characters of a cell
LONGEST_NAME = 24  # maximum characters of a token's name
# At most 15 digits on each side of the decimal point, so that no input makes the calculation slow.
_NUMBER = re.compile(r"([+-]?)(\d{0,15})(?:\.(\d{0,15}))?(?:e([+-]?\d{1,4}))?(?:/(\d{1,15}))?", re.IGNORECASE)
_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "，": ",", "．": ".", "／": "/", **{chr(0xFF10 + n): str(n) for n in range(10)}}
)


@dataclass(frozen=True)
class Table:
    """One table of a sheet. `rows` and `columns` are names of dimensions; `"1"` means size 1."""

    symbol: str
    rows: str
    columns: str
    low: int | None = None  # bounds on its numbers
    high: int = LARGEST
    whole: bool = False
    above: bool = False  # whether `low` itself is excluded


@dataclass(frozen=True)
class Typed:
    """User input: the name of the example it started from, the cells of each table, and the names of the tokens."""

    example: str
    tables: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """An invalid cell, with the error and a hint."""

    table: str
    row: int
    column: int
    what: str
    hint: str


def read_number(text: str) -> Fraction:
    """Parse the number in a cell, such as 2, −0.5, 1e-3 or 1/3. Raises InputError for anything else, and for magnitudes
    above 10^12.
    """
    plain = text.translate(_SIGNS).replace(" ", "")
    if not plain:
        raise InputError("A cell is empty.", "", "Type a number, 0 for nothing.")
    if re.fullmatch(r"[+-]?\d+,\d+", plain):
        raise InputError("This is not a number.", text, "Write the decimal point as a point: 0.5.")
    match = _NUMBER.fullmatch(plain)
    if not match or not (match[2] or match[3]):
        raise InputError("This is not a number.", text, "Type a number such as 2, −0.5, 1e-3 or 1/3.")
    sign, before, after, power, below = match.groups()
    exponent = int(power or 0)
    if abs(exponent) > 30:
        raise InputError("This number is too large or too small to compute by hand.", text, "Stay within ±10^12.")
    if below is not None and int(below) == 0:
        raise InputError("Division by 0.", text, "Type another denominator.")
    value = Fraction(f"{before or 0}.{after or 0}") * Fraction(10) ** exponent / int(below or 1)
    if value > LARGEST:
        raise InputError("This number is too large or too small to compute by hand.", text, "Stay within ±10^12.")
    return -value if sign == "-" else value


def checked(text: str, table: Table) -> Fraction:
    """Parse a cell of a table. Raises InputError if it is not a number or is out of the table's bounds."""
    value = read_number(text)
    below = table.low is not None and (value < table.low or (table.above and value == table.low))
    if not below and value <= table.high and (not table.whole or value.denominator == 1):
        return value
    hint = (
        say("Type a whole number from {} to {}.", table.low, table.high)
        if table.whole
        else say("Type a number above {}, at most {}.", table.low, table.high)
        if table.high < LARGEST
        else say("Type a number above {}.", table.low)
        if table.above
        else say("Type a number from {}.", table.low)
    )
    raise InputError("This number is not allowed here.", text, hint)


def problems(typed: Typed, tables: Mapping[str, Table]) -> list[Problem]:
    """List the invalid cells; a table of the wrong shape is reported at its first cell."""
    results = []
    sizes: dict[str, int] = {}
    for name, rows in typed.tables:
        table = tables[name]
        try:
            _check_shape(rows, table, sizes)
        except InputError as error:
            results.append(Problem(name, 0, 0, error.what, error.hint))
            continue
        for r, row in enumerate(rows):
            for c, text in enumerate(row):
                try:
                    checked(text, table)
                except InputError as error:
                    results.append(Problem(name, r, c, error.what, error.hint))
    return results


def _check_shape(rows: tuple[tuple[str, ...], ...], table: Table, sizes: dict[str, int]) -> None:
    """Raise InputError for an invalid shape, or one that is inconsistent with earlier tables. Adds new dimensions to
    `sizes`.
    """
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 1 <= len(rows) <= MOST or not 1 <= min(widths) <= MOST:
        what = say("{} is not a table of 1 to {} rows and columns.", table.symbol, MOST)
        raise InputError(what, "", "Every row needs the same number of cells.")
    for dimension, n in ((table.rows, len(rows)), (table.columns, min(widths))):
        if n != sizes.setdefault(dimension, 1 if dimension == "1" else n):
            misfit = say("{} is {} × {} and does not fit the other tables.", table.symbol, len(rows), min(widths))
            raise InputError(misfit, "", "Change the sizes with the buttons above the tables.")


def steps_of(typed: Typed, tables: Mapping[str, Table], named: str = "") -> dict[str, MatrixStep]:
    """Convert the tables to the first steps of a calculation. Raises InputError for the first invalid cell.

    `named`: the dimension whose entries have names.
    """
    for problem in problems(typed, tables):
        where = f"{tables[problem.table].symbol}[{problem.row + 1}, {problem.column + 1}]"
        raise InputError(problem.what, where, problem.hint)
    result = {}
    for name, rows in typed.tables:
        table = tables[name]
        values = [[checked(text, table) for text in row] for row in rows]
        down, across = (
            _names(typed, n, dimension == named)
            for n, dimension in ((len(rows), table.rows), (len(rows[0]), table.columns))
        )
        result[name] = input_step(name, table.symbol, values, down, across)
    return result


def _names(typed: Typed, n: int, named: bool) -> tuple[str, ...]:
    """Return n names of tokens; missing ones are replaced by their number. () if the dimension has no names."""
    return tuple((typed.names[i : i + 1] or (str(i + 1),))[0] for i in range(n)) if named else ()
