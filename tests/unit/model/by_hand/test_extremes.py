"""Every sheet on extreme numbers, under every option and number type: no crash, and each cell is what its formula says.

A cell's formula is computed anew with mpmath from the cells that it names. So a cell that is no number is explained by
what stands before it: an infinite sum, or nothing divided by nothing.
"""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from model.by_hand.calculations.block import NORMS as BLOCK_NORMS
from model.by_hand.calculations.block import PLACEMENTS
from model.by_hand.calculations.exercises import EXERCISE_SHEETS
from model.by_hand.calculations.mlp import ACTIVATIONS
from model.by_hand.calculations.norms import KINDS as NORMS
from model.by_hand.calculations.rounding import SCHEMES
from model.by_hand.calculations.softmax import KINDS
from model.by_hand.numbers import FLOATS, Constant, Ref
from model.by_hand.sheets import SHEETS, example, worked
from model.by_hand.tables import Typed, checked
from model.by_hand.writing import as_latex, as_numpy
from model.errors import InputError
from viz.numbers import typed as written

ALL = SHEETS | EXERCISE_SHEETS
CHOICES = {
    "heads": (1, 2),
    "causal": (True, False),
    "scaled": (True, False),
    "stable": (True, False),
    "kind": KINDS,
    "norm": ("all", *NORMS),
    "activation": ACTIVATIONS,
    "residual": (True, False),
    "scheme": SCHEMES,
    "placement": PLACEMENTS,
    "norms": BLOCK_NORMS,
}
FILLS = {
    "zero": ("0",),
    "one": ("1",),
    "tiny": ("1e-30", "-1e-30"),
    "huge": ("1000000000000", "999999999999"),
    "far apart": ("-1000000000000", "1e-15", "1000000000000"),
    "negative": ("-1000000000000",),
    "equal thousands": ("1000.1",),
    "thousands": ("1000", "1000.1", "1000.2"),
    "below 0": ("-0.3", "-7", "-21", "-40"),
    "thirds": ("1/3", "-2/3", "1/999999999999999"),
}
DIGITS = 30  # that the page can show
BEYOND = mpmath.mpf(10) ** 999_000  # what an exact number cannot hold is infinite, or 0 below its inverse


def options_of(sheet, together):
    """Every combination of the options that a sheet has, or each option alone beside the defaults of the others."""
    names = list(sheet.defaults)
    if not together:
        return [{name: value} for name in names for value in CHOICES[name]] or [{}]
    return [dict(zip(names, each, strict=True)) for each in itertools.product(*(CHOICES[name] for name in names))]


def signatures(sheet):
    """An example of each set of tables and shapes that the sheet's examples have."""
    kinds = {}
    for name in sheet.examples:
        kinds.setdefault(tuple(key for key, _ in example(sheet, name).tables), name)
    return kinds.values()


def filled(sheet, name, fill):
    """The example with its tables full of these numbers; a number that a table cannot hold is its nearest bound."""
    usual = example(sheet, name)
    values = itertools.cycle(fill)

    def table(of, rows):
        return tuple(tuple(within(of, next(values)) for _ in row) for row in rows)

    return Typed(
        usual.example,
        tuple(
            (key, tuple(tuple(within(sheet.tables[key], next(values)) for _ in r) for r in rows))
            for key, rows in usual.tables
        ),
        usual.names,
    )


def within(table, text):
    for each in (text, text.removeprefix("-"), str(table.low), str(table.high)):
        try:
            checked(each, table)
        except InputError:
            continue
        return each
    raise AssertionError(table)


class Real:
    """A number of mpmath with the rules of IEEE 754 for what has no value; sums with a tanh are exact."""

    def __init__(self, value, exact=False):
        self.value, self.exact = mpmath.mpf(value), exact

    def __add__(self, other):
        other = real(other)
        return Real(mpmath.fadd(self.value, other.value, exact=self.exact or other.exact))

    __radd__ = __add__

    def __sub__(self, other):
        return self + -real(other)

    def __neg__(self):
        return Real(-self.value, self.exact)

    def __mul__(self, other):
        return Real(self.value * real(other).value)

    def __truediv__(self, other):
        below = real(other).value
        if below:
            return Real(self.value / below)
        return Real(mpmath.nan if not self.value or mpmath.isnan(self.value) else mpmath.sign(self.value) * mpmath.inf)

    def __pow__(self, other):
        return Real(self.value ** real(other).value)

    def __gt__(self, other):
        return Real(int(self.value > real(other).value))

    def __le__(self, other):
        return Real(int(self.value <= real(other).value))


def real(value):
    return value if isinstance(value, Real) else Real(value)


def exact(value) -> Real:
    if isinstance(value, Fraction):
        return Real(mpmath.mpf(value.numerator) / value.denominator)
    return Real(mpmath.mpf(str(value).lower().replace("infinity", "inf")))


def tanh(x):
    share = 2 / (1 + mpmath.exp(-2 * x.value))
    return Real(-1) if share < 1 / BEYOND else Real(mpmath.fsub(share, 1, exact=True), exact=True)


def extreme(choose):
    def function(*numbers):
        values = [real(each).value for each in numbers]
        return Real(mpmath.nan if any(map(mpmath.isnan, values)) else choose(values))

    return function


def rounded(kind):
    def function(x):
        with np.errstate(over="ignore", under="ignore"):
            return Real(float(getattr(np, kind)(float(x.value))))

    return function


FUNCTIONS = {
    "root": lambda x: Real(mpmath.sqrt(x.value)),
    "exp": lambda x: Real(mpmath.exp(x.value)),
    "ln": lambda x: Real(mpmath.log(x.value)),
    "sin": lambda x: Real(mpmath.sin(x.value)),
    "cos": lambda x: Real(mpmath.cos(x.value)),
    "abs": lambda x: Real(abs(x.value)),
    "round": lambda x: Real(mpmath.nint(x.value)),
    "max": extreme(max),
    "min": extreme(min),
    "tanh": tanh,
    "Φ": lambda x: Real(mpmath.erfc(-x.value / mpmath.sqrt(2)) / 2),
    "inf": Real(mpmath.inf),
    **{kind: rounded(kind) for kind in FLOATS},
}
SIGNS = {"×": "*", "−∞": "-inf", "−": "-", "²": "**2", "^": "**", "≤": "<=", "[": "(", "]": ")", "√(": "root("}


def evaluated(made, steps):
    """The formula of a cell, computed from the cells that it names."""
    text, names = "", dict(FUNCTIONS)
    for n, piece in enumerate(made):
        if isinstance(piece, str):
            for ours, python in SIGNS.items():
                piece = piece.replace(ours, python)
            text += piece
            continue
        value = piece.value if isinstance(piece, Constant) else steps[piece.name].cells[piece.row][piece.column].value
        names[f"n{n}"] = exact(value)
        text += f"n{n}"
    return eval(text, names).value


def lost(made, steps) -> mpmath.mpf:
    """The largest error of a difference of two fifty-digit numbers that different chains of steps gave."""
    refs = (steps[piece.name].cells[piece.row][piece.column].value for piece in made if isinstance(piece, Ref))
    return max((abs(exact(value).value) for value in refs), default=mpmath.mpf(0)) * mpmath.mpf(10) ** -47


def agree(ours, theirs, slack=0) -> bool:
    ours = exact(ours).value
    if mpmath.isnan(ours) or mpmath.isnan(theirs):
        return mpmath.isnan(ours) and mpmath.isnan(theirs)
    if mpmath.isinf(ours) or mpmath.isinf(theirs):
        return mpmath.sign(ours) == mpmath.sign(theirs) and min(abs(ours), abs(theirs)) > BEYOND
    if abs(theirs) < 1 / BEYOND:
        return abs(ours) <= max(1 / BEYOND, slack)
    return abs(ours - theirs) <= slack + abs(theirs) * mpmath.mpf(10) ** -DIGITS


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", ALL)
def test_every_cell_is_its_formula_or_its_input_is_refused(name, fill):
    sheet, computed = ALL[name], 0
    for n, start in enumerate(signatures(sheet)):
        typed = filled(sheet, start, FILLS[fill])
        for options in options_of(sheet, together=n == 0):
            try:
                given, steps = worked(sheet, typed, options)
            except InputError as refused:
                assert refused.hint
                continue
            known = dict(given)
            with mpmath.workdps(75):
                for step in steps:
                    for cell in itertools.chain(*step.cells):
                        theirs = evaluated(cell.made, known)
                        slack = lost(cell.made, known) if name == "block" else 0  # its norms follow decimals
                        assert agree(cell.value, theirs, slack), (options, step.name, cell, mpmath.nstr(theirs, 40))
                        computed += 1
                    known[step.name] = step
            shown = {
                key: [[written(cell.value, DIGITS) for cell in row] for row in each.cells]
                for key, each in known.items()
            }
            assert as_latex(given, steps, shown)
    assert computed or (name, fill) in {("rounding", "zero")}


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", ["attention", "logits"])
def test_what_overflows_in_a_float_type_overflows_in_numpy(name, fill, kind, stable):
    sheet = SHEETS[name]
    given, steps = worked(
        sheet, filled(sheet, next(iter(sheet.examples)), FILLS[fill]), {"kind": kind, "stable": stable}
    )
    made: dict = {}
    with np.errstate(all="ignore"):
        exec(as_numpy(given, steps), made)
    for step in steps:
        ours = np.array([[float(cell.value) for cell in row] for row in step.cells])
        assert np.array_equal(np.isnan(made[step.name]), np.isnan(ours)), step.name


def test_a_thousand_without_its_maximum_by_hand():
    """e^1000 is infinite in every float type, and so is the sum: infinite by infinite has no value."""
    for kind in FLOATS:
        _, steps = worked(SHEETS["logits"], example(SHEETS["logits"], "thousand"), {"stable": False, "kind": kind})
        texts = {step.name: [written(cell.value, 4) for cell in step.cells[0]] for step in steps}
        assert texts["E"] == ["∞"] * 3 and texts["Z"] == ["∞"] and texts["P"] == ["NaN"] * 3
        assert texts["r"] == ["1"] * 3 and texts["D"] == ["NaN"] * 3 and texts["L"] == texts["PPL"] == ["NaN"]


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("gelu", lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
        (
            "gelu_tanh",
            lambda x: x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))) / 2,
        ),
    ],
)
@pytest.mark.parametrize("at", ["-0.001", "-5", "-19.9", "-21", "-40"])
def test_tails_of_gelu_have_thirty_digits(kind, right, at):
    """Below -20 the exact one is not 0: -2e-92 at -20.2, where a sum of 1 and the error function leaves no digit."""
    cells = {"x": "1", "W_1": at, "b_1": "0", "W_2": "1", "b_2": "0"}
    typed = Typed("", tuple((key, ((text,),)) for key, text in cells.items()))
    _, steps = worked(SHEETS["mlp"], typed, {"activation": kind})
    with mpmath.workdps(2500):  # the smallest value is near 1e-2010, a sum of 1 and nearly -1
        x = exact(Fraction(at)).value
        assert agree(next(step for step in steps if step.name == "a").cells[0][0].value, right(x))
