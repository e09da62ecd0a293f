"""Export of a calculation: NumPy code that computes the same numbers, and LaTeX."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from model.by_hand.numbers import Value
from model.by_hand.products import latex
from model.by_hand.steps import MatrixStep


def as_numpy(inputs: Mapping[str, MatrixStep], steps: Sequence[MatrixStep]) -> str:
    """Format a calculation as Python code that computes an array for each step, with the same name and shape."""
    body = [step.numpy for step in steps]
    imports = [*(["import math", ""] if any("math." in line for line in body) else []), "import numpy as np", ""]
    tables = [f"{each.name} = np.array({_rows(each)}, dtype=float)" for each in inputs.values()]
    return "\n".join([*imports, *tables, "", *body]) + "\n"


def _rows(of: MatrixStep) -> str:
    rows = (", ".join(_plain(cell.value) for cell in row) for row in of.cells)
    return f"[{', '.join(f'[{row}]' for row in rows)}]"


def _plain(value: Value) -> str:
    """Format a number as a Python literal or quotient, such as 2, 0.5 or 1 / 3."""
    if isinstance(value, Decimal) or value.denominator == 1:
        return str(value)
    return repr(float(value)) if Fraction(repr(float(value))) == value else f"{value.numerator} / {value.denominator}"


def as_latex(
    inputs: Mapping[str, MatrixStep], steps: Sequence[MatrixStep], texts: Mapping[str, Sequence[Sequence[str]]]
) -> str:
    r"""Format each matrix with its formula as an aligned block of amsmath. `texts`: the displayed
    numbers of each step.
    """
    lines = [f"{latex(each.symbol)} &= {_matrix(texts[each.name])}" for each in inputs.values()]
    for each in steps:
        left, _, right = each.latex.partition(" = ")
        lines.append(f"{left} &= {right + ' = ' if right else ''}{_matrix(texts[each.name])}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}\n"


def _matrix(texts: Sequence[Sequence[str]]) -> str:
    rows = r" \\ ".join(" & ".join(map(_latex_number, row)) for row in texts)
    return r"\begin{bmatrix} " + rows + r" \end{bmatrix}"


_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _latex_number(text: str) -> str:
    """Convert a displayed number, such as −0.5, 1/3, 1.2 × 10⁻⁵ or −∞, to LaTeX."""
    plain = text.replace("−", "-").replace("∞", r"\infty")
    if " × 10" in plain:
        mantissa, power = plain.split(" × 10")
        return rf"{mantissa} \cdot 10^{{{power.translate(_RAISED)}}}"
    if "/" in plain:
        above, below = plain.split("/")
        minus = above.startswith("-")
        return rf"{'-' if minus else ''}\frac{{{above.removeprefix('-')}}}{{{below}}}"
    return r"\mathrm{NaN}" if plain == "NaN" else plain
