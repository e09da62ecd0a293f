"""The tools that a model can call: a calculator and a lookup in a small table. Both return one line of text.

Generated text is never executed: an expression is parsed, and only numbers and the four operations are evaluated.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

MOST_EXPRESSION = 100  # maximum length of an expression in characters
MOST_NUMBER = 10**15
MOST_ANSWER = 200  # maximum length of a table entry in characters
NO_RESULT = "no result"  # the observation of an invalid calculation
NOT_FOUND = "not found"
NO_TOOL = "no such tool"

_BINARY: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
CALL = re.compile(r"([A-Za-z_]+)\s*\[([^\[\]\n]*)\]")  # a name and a bracketed argument

Tool = Callable[[str], str]


def calculate(expression: str) -> str:
    """Compute the exact value of an expression of numbers, + - * / and parentheses; return NO_RESULT for anything
    else.

    Integers are written without a decimal point, other values with up to six decimal places. Names, calls, powers and
    numbers beyond MOST_NUMBER are unsupported.
    """
    text = expression.strip().replace("×", "*").replace("÷", "/").replace("−", "-")
    if not text or len(text) > MOST_EXPRESSION or not text.isascii():
        return NO_RESULT
    try:
        value = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return NO_RESULT
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6f}".rstrip("0").rstrip(".")


def _value(node: ast.expr) -> Fraction:
    """Evaluate a parsed expression. Raises ValueError for unsupported syntax and for values that are too large."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = -_value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            value = _BINARY[type(op)](_value(left), _value(right))
        case _:
            raise ValueError("this is no arithmetic")
    if abs(value) > MOST_NUMBER or value.denominator > MOST_NUMBER:
        raise ValueError("this number is too large")
    return value


def look_up(table: Mapping[str, str], name: str) -> str:
    """Return the table's entry for a name, ignoring case and spaces, or NOT_FOUND for an unknown name."""
    known = {_plain(key): value for key, value in table.items()}
    return known.get(_plain(name), NOT_FOUND)[:MOST_ANSWER]


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def toolbox(table: Mapping[str, str]) -> dict[str, Tool]:
    """Return the tools by the names under which a model calls them; the lookup is included only if the table has
    entries.
    """
    tools: dict[str, Tool] = {"calculate": calculate}
    return tools | ({"lookup": lambda name: look_up(table, name)} if table else {})


def parse_call(text: str) -> tuple[str, str] | None:
    """Parse the first call in a text, such as "calculate[2 + 3]", into its lower-case name and bracketed argument."""
    match = CALL.search(text)
    return (match[1].lower(), match[2].strip()) if match else None


def observe(tools: Mapping[str, Tool], call: tuple[str, str]) -> str:
    """Run the called tool and return its output, or NO_TOOL for an unknown name."""
    name, argument = call
    return tools[name](argument) if name in tools else NO_TOOL
