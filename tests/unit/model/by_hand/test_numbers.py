"""Exact numbers and functions of fifty digits, against mpmath, and cells as they are typed."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from model.by_hand.numbers import (
    MINUS_INFINITY,
    Number,
    cosine,
    exp,
    holds,
    largest,
    ln,
    normal_below,
    number,
    power,
    round_to_even,
    sine,
    sqrt,
    stored,
    tanh,
)
from model.by_hand.tables import Table, Typed, checked, problems, read_number
from model.errors import InputError

ARGUMENTS = ("-12.5", "-3", "-1/3", "1e-9", "0.5", "2", "7.25", "19.9")


def close(ours: Number, theirs) -> bool:
    return abs(mpmath.mpf(str(ours.value)) - theirs) <= mpmath.mpf(10) ** -45 * max(1, abs(theirs))


@pytest.mark.parametrize("text", ARGUMENTS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (exp, mpmath.exp),
        (sine, mpmath.sin),
        (cosine, mpmath.cos),
        (tanh, mpmath.tanh),
        (normal_below, lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    ],
)
def test_functions_have_45_digits(ours, theirs, text):
    value = Fraction(text)
    with mpmath.workdps(70):
        assert close(ours(number(value)), theirs(mpmath.mpf(value.numerator) / value.denominator))


def test_roots_and_logarithms():
    with mpmath.workdps(70):
        assert close(sqrt(number(2)), mpmath.sqrt(2)) and close(ln(number(2)), mpmath.log(2))
        assert close(power(number(10000), number(Fraction(1, 3))), mpmath.mpf(10000) ** (mpmath.mpf(1) / 3))


def test_what_is_rational_stays_a_fraction():
    third = number(1) / number(3)
    assert (third + third + third).value == 1 and isinstance(third.value, Fraction)
    assert sqrt(number(Fraction(9, 4))).value == Fraction(3, 2)
    assert exp(number(0)).value == 1 and ln(number(1)).value == 0 and cosine(number(0)).value == 1
    assert isinstance((third * exp(number(1))).value, Decimal)
    assert exp(MINUS_INFINITY).value == 0


def test_halves_go_to_the_even_number():
    assert [round_to_even(number(Fraction(n, 2))).value for n in (-3, -1, 1, 3, 5)] == [-2, 0, 0, 2, 2]


def test_formulas_are_bracketed():
    a, b, c = (Number(Fraction(n), (name,)) for n, name in ((2, "a"), (3, "b"), (5, "c")))
    assert "".join(((a + b) * c).made) == "(a + b) × c"
    assert "".join((a - (b - c)).made) == "a − (b − c)"
    assert "".join((a / (b * c)).made) == "a / (b × c)"
    assert "".join((a * b + c).made) == "a × b + c"
    assert "".join(holds(a, ">", b).made) == "[a > b]" and largest([a, c, b]).value == 5


@pytest.mark.parametrize(("kind", "beyond"), [("float16", 70000), ("float32", 10**39)])
def test_a_float_type_rounds_and_overflows(kind, beyond):
    assert stored(number(beyond), kind).value == Decimal("Infinity")
    assert float(stored(number(Fraction(1, 3)), kind)) == float(getattr(np, kind)(1 / 3)) != 1 / 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("−0.5", Fraction(-1, 2)),
        (" 1/3 ", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
        ("１．５", Fraction(3, 2)),
        ("-2.5e2/5", -50),
    ],
)
def test_numbers_as_people_type_them(text, value):
    assert read_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "nan",
        "inf",
        "1e400",
        "1e-400",
        "1e999999999",
        "1/0",
        "0,5",
        "--1",
        "1..2",
        "9" * 400,
        "1e13",
        ".",
        "\ud800",
        "<b>",
    ],
)
def test_other_cells_are_refused_at_once(text):
    with pytest.raises(InputError) as refused:
        read_number(text)
    assert refused.value.hint


def test_bounds_of_a_table():
    count = Table("k", "1", "1", low=1, high=8, whole=True)
    assert checked("3", count) == 3
    for text in ("0", "9", "2.5"):
        with pytest.raises(InputError):
            checked(text, count)
    with pytest.raises(InputError):
        checked("0", Table("T", "1", "1", low=0, above=True))


def test_every_wrong_cell_is_named():
    tables = {"Q": Table("Q", "T", "E"), "K": Table("K", "T", "E")}
    typed = Typed("", (("Q", (("1", "x"), ("", "2"))), ("K", (("1", "2"), ("3", "4")))))
    assert [(each.table, each.row, each.column) for each in problems(typed, tables)] == [("Q", 0, 1), ("Q", 1, 0)]
    ragged = Typed("", (("Q", (("1", "2"), ("3",))),))
    assert problems(ragged, tables)[0].table == "Q"
    other = Typed("", (("Q", (("1", "2"),)), ("K", (("1", "2"), ("3", "4")))))
    assert problems(other, tables)[0].table == "K"
    assert problems(Typed("", (("Q", ()),)), tables) and problems(Typed("", (("Q", (("1",) * 17,)),)), tables)
