"""The calculator and the look-up: right on arithmetic, and deaf to everything else that a model may write."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.prompting.tools import NO_RESULT, NO_TOOL, NOT_FOUND, calculate, look_up, observe, parse_call, toolbox

ARITHMETIC = {
    "17 + 25": "42",
    "3 + 4 * 5": "23",
    "(3 + 4) * 5": "35",
    "10 / 4": "2.5",
    "1 / 3": "0.333333",
    "-7 - -2": "-5",
    "0.1 + 0.2": "0.3",
    "6 × 7": "42",
    "84 ÷ 2": "42",
    "3 − 5": "-2",
    " 2+2 ": "4",
    "1e3": "1000",
}
HOSTILE = (
    "",
    " ",
    "__import__('os').system('true')",
    "open('/etc/passwd').read()",
    "().__class__.__bases__",
    "9 ** 9 ** 9 ** 9",
    "2 ** 2",
    "1 << 99",
    "7 // 2",
    "7 % 2",
    "True + 1",
    "'a' * 99",
    "[1] * 99",
    "x + 1",
    "x := 5",
    "lambda: 1",
    "1 if 1 else 2",
    "1, 2",
    "1 < 2",
    "~5",
    "not 1",
    "1 / 0",
    "1e400",
    "1e-400 / 1",
    "2j * 2j",
    "None",
    "...",
    "f'{1}'",
    "10" * 60,
    "99999999999999999",
    "999999999 * 999999999",
    "(" * 90,
    "-" * 99 + "1",
    "(" * 40 + "1" + ")" * 41,
    "1\x00+1",
    "１ + １",  # digits that are not ASCII
    "1 + ",
    "# 5",
)


@pytest.mark.parametrize("text", ARITHMETIC)
def test_arithmetic_is_exact(text):
    assert calculate(text) == ARITHMETIC[text]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_else_has_a_result(text):
    assert calculate(text) in (NO_RESULT, "0", "-1")
    if "1e-400" not in text and not text.startswith("-"):
        assert calculate(text) == NO_RESULT


@given(st.text(max_size=120))
def test_any_text_gets_a_short_line(text):
    said = calculate(text)
    assert said and "\n" not in said and len(said) <= 40


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"))
def test_whole_numbers_against_python(a, b, op):
    expected = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert calculate(f"({a}) {op} ({b})") == str(expected)
    assert float(calculate(f"{a} / 7")) == pytest.approx(float(Fraction(a, 7)), abs=1e-6)


def test_the_table_knows_names_whatever_their_case():
    table = {"Norway": "Oslo", "New  Zealand": "Wellington"}
    assert look_up(table, " norway ") == "Oslo" and look_up(table, "new zealand") == "Wellington"
    assert look_up(table, "Atlantis") == look_up(table, "") == NOT_FOUND
    assert len(look_up({"a": "x" * 1000}, "a")) == 200


def test_calls():
    assert parse_call("I add. calculate[2 + 3] then finish[5]") == ("calculate", "2 + 3")
    assert parse_call("Lookup [ Norway ]") == ("lookup", "Norway")
    assert parse_call("calculate(2)") is parse_call("calculate[2\n]") is parse_call("") is None
    tools = toolbox({"Norway": "Oslo"})
    assert observe(tools, ("calculate", "2 + 3")) == "5" and observe(tools, ("lookup", "norway")) == "Oslo"
    assert observe(tools, ("rm", "-rf")) == observe(toolbox({}), ("lookup", "norway")) == NO_TOOL
