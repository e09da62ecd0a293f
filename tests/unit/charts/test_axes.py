"""Axes that all figures share: the labels of logarithmic ones."""

import math
from pathlib import Path

import pytest

from viz.charts.axes import LOG, powers
from viz.numbers import tens

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.002, 350, ["0.01", "0.1", "1", "10", "100"]),
        (0.001, 1e5, ["0.01", "1", "100", "10,000"]),  # all nine are too many: every second one
        (3e-7, 20, ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]),
        (1e17, 3e27, ["10¹⁸", "10²⁰", "10²²", "10²⁴", "10²⁶"]),
    ],
)
def test_powers_of_ten_are_labeled_in_one_form(low, high, texts):
    shown = powers(low, high)
    assert shown["ticktext"] == texts and shown["type"] == "log" and shown["tickmode"] == "array"
    assert all(low <= at * (1 + 1e-9) and at <= high * (1 + 1e-9) for at in shown["tickvals"])
    assert len(shown["tickvals"]) == len(texts) <= 8


def test_a_value_is_where_its_label_says():
    values = {"10⁻⁶": 1e-6, "10⁰": 1.0, "10¹²": 1e12, "0.001": 1e-3, "100,000": 1e5}
    for exponents in ([-6, 0, 12], [-3, 5]):
        for text, exponent in zip(tens(exponents), exponents, strict=True):
            assert math.isclose(values[text], 10.0**exponent)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 9), (0.5, 3), (11, 999)])
def test_plain_numbers_where_fewer_than_two_powers_of_ten_are_within(low, high):
    assert powers(low, high) is LOG


def test_no_figure_leaves_powers_to_plotly():
    """It draws 10² larger than 10 and 1 beside it."""
    there = [path for path in (ROOT / "viz").rglob("*.py") if "exponentformat" in path.read_text(encoding="utf-8")]
    assert there == []
