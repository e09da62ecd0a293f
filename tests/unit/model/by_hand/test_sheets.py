"""All sheets: their formulas evaluated, what they are written as run, and what they refuse."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from model.by_hand.calculations.rounding import SCHEMES
from model.by_hand.numbers import Constant, Ref
from model.by_hand.sheets import SHEETS, example, worked
from model.by_hand.writing import as_latex, as_numpy
from model.errors import InputError
from tests.support.sheets import array, of, typed

OPTIONS = {
    "attention": [{}, {"heads": 2}, {"scaled": False, "causal": False}, {"stable": False}],
    "norms": [{}, {"norm": "all"}],
    "mlp": [{"activation": each} for each in ("gelu", "gelu_tanh", "gelu_sigmoid", "relu", "silu")]
    + [{"residual": False}],
    "block": [{}, {"placement": "post"}, {"norms": "rms", "activation": "relu"}],
    "rounding": [{"scheme": each} for each in SCHEMES],
}
UNFIT = [("dictionary", {"heads": 2}), ("overflow", {"stable": False})]  # one column of V; beyond any float
UNFIT += [(name, {"norm": "all"}) for name in ("one_to_four", "undone")]  # one token has no spread over tokens
CASES = [
    (sheet, name, options)
    for sheet in SHEETS
    for name in SHEETS[sheet].examples
    for options in OPTIONS.get(sheet, [{}])
    if (name, options) not in UNFIT
]


def test_tables_have_up_to_sixteen_columns():
    n = of("mlp", "wide")
    assert n["W_1"].shape == (4, 16)
    assert np.allclose(n["a"], torch.nn.functional.gelu(torch.tensor(n["h"])), atol=1e-14)
    row = [["1"] * 17]
    with pytest.raises(InputError, match="1 to 16 rows and columns"):
        worked(SHEETS["block"], typed({"X": row, "from_layer": row}))


@pytest.mark.parametrize(
    ("sheet", "tables"),
    [
        ("rounding", {"x": [[0, 0]], "bits": [[8]]}),
        ("logits", {"z": [[1, 2]], "T": [[1]], "k": [[1]], "p": [[1]], "target": [[3]]}),
        ("positions", {"x": [[1, 2, 3]], "m": [[1]], "base": [[100]]}),
    ],
)
def test_what_cannot_be_computed_is_said(sheet, tables):
    with pytest.raises(InputError) as refused:
        worked(SHEETS[sheet], typed(tables))
    assert refused.value.hint


_NAMES = {
    "√": lambda x: math.sqrt(x),
    "exp": math.exp,
    "ln": math.log,
    "max": lambda *x: max(x),
    "min": lambda *x: min(x),
    "abs": abs,
    "round": round,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "float16": lambda x: float(np.float16(x)),
    "Φ": lambda x: (1 + math.erf(x / math.sqrt(2))) / 2,
}


def literal(value) -> str:
    """The value as Python reads it; a fraction stays one."""
    return f"Fraction({str(value)!r})" if isinstance(value, Fraction) else f"({float(value)!r})"


def evaluated(made, steps) -> float:
    """The formula of a cell, computed from the cells that it names."""
    text = ""
    for piece in made:
        if isinstance(piece, Ref):
            text += literal(steps[piece.name].cells[piece.row][piece.column].value)
        elif isinstance(piece, Constant):
            text += literal(piece.value)
        else:
            text += piece
    for ours, python in (
        ("×", "*"),
        ("−∞", "-inf"),
        ("−", "-"),
        ("²", "**2"),
        ("^", "**"),
        ("≤", "<="),
        ("[", "("),
        ("]", ")"),
    ):
        text = text.replace(ours, python)
    return float(
        eval(text.replace("√(", "root("), {**_NAMES, "root": math.sqrt, "inf": math.inf, "Fraction": Fraction})
    )


@pytest.mark.parametrize(("sheet", "name", "options"), CASES)
def test_every_cell_is_what_its_formula_says(sheet, name, options):
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    known = dict(given_)
    for step in steps:
        for row in step.cells:
            for cell in row:
                assert cell.made, step.name
                value = float(cell.value)
                assert math.isclose(evaluated(cell.made, known), value, rel_tol=1e-9, abs_tol=1e-12), (step.name, cell)
        assert step.name not in known
        known[step.name] = step  # a formula names only what came before


@pytest.mark.parametrize(("sheet", "name", "options"), CASES)
def test_numpy_lines_give_the_same_numbers(sheet, name, options):
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    made: dict = {}
    exec(as_numpy(given_, steps), made)
    for step in steps:
        assert np.shape(made[step.name]) == step.shape, step.name
        assert np.allclose(made[step.name], array(step), rtol=1e-9, atol=1e-13), step.name


def test_latex_has_every_matrix():
    given_, steps = worked(SHEETS["norms"], example(SHEETS["norms"], "one_to_four"))
    texts = {each.name: [["1/3"] * each.shape[1]] * each.shape[0] for each in (*given_.values(), *steps)}
    written = as_latex(given_, steps, texts)
    assert written.count(r"\begin{bmatrix}") == len(given_) + len(steps) and r"\frac{1}{3}" in written
    assert written.count("{") == written.count("}") and r"\hat{x}" in written
