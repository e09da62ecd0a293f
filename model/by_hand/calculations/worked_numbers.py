"""Sheets that are used only in exercises: costs of a model, a gradient through its layers, and reordered tokens."""

from collections.abc import Mapping

from model.by_hand.calculations.attention import AttentionOptions, attention
from model.by_hand.numbers import Number, holds, number, power, sqrt, total
from model.by_hand.sheets import Sheet, SheetExample
from model.by_hand.steps import MatrixStep, Notation, renamed_step, step
from model.by_hand.tables import Table

_Steps = tuple[MatrixStep, ...]
_Inputs = Mapping[str, MatrixStep]


def _row(notation: tuple[str, str, str, str, str], cells: list[Number], names: tuple[str, ...] = ()) -> MatrixStep:
    """Build a step of one row; `notation` is its name, symbol, description, formula and line of code."""
    name, symbol, about, formula, line = notation
    latex = formula.replace("√", r"\sqrt ").replace("Σ", r"\sum ").replace("×", r"\times ").replace("−", "-")
    return step(Notation(name, symbol, about, formula, latex, f"{name} = {line}"), [cells], (), names)


def _decay(inputs: _Inputs) -> _Steps:
    """Compute what is left of a gradient in each of n layers from the last to the first, if each passes on a share."""
    share, n = inputs["share"].at(0, 0), int(inputs["layers"].cells[0][0].value)
    names = tuple(str(n - passed) for passed in range(n))
    cells = [power(share, number(passed)) for passed in range(n)]
    notation = ("left", "g", "gradient_left", "g_l = r^(n − l)", f"share ** np.arange({n})[None]")
    return (_row(notation, cells, names),)


def _head(inputs: _Inputs) -> _Steps:
    """Compute a scaled score of one head: the width of a head is d / h, and the score is divided by its root."""
    d, heads, dot = (inputs[name].at(0, 0) for name in ("d_model", "heads", "score"))
    width = _row(("head_width", "d_h", "head_width", "d_h = d / h", "d_model / heads"), [d / heads])
    root = _row(("root", "√d_h", "head_root", "√d_h", "np.sqrt(head_width)"), [sqrt(width.at(0, 0))])
    scaled = ("scaled", "s", "head_score", "s = q·k / √d_h", "score / root")
    return width, root, _row(scaled, [dot / root.at(0, 0)])


def _cost(inputs: _Inputs) -> _Steps:
    """Count the operations of an n × m weight matrix on one token: a multiplication and an addition per weight."""
    n, m = inputs["rows_in"].at(0, 0), inputs["columns_out"].at(0, 0)
    times = _row(("products", "p", "multiplications", "p = n m", "rows_in * columns_out"), [n * m])
    plus = _row(("sums", "a", "additions", "a = n m", "rows_in * columns_out"), [n * m])
    flops = ("flops", "F", "all_operations", "F = p + a", "products + sums")
    return times, plus, _row(flops, [times.at(0, 0) + plus.at(0, 0)])


def _chinchilla(inputs: _Inputs) -> _Steps:
    """Compute the parameters for a number of tokens, in billions, at a ratio of tokens to parameters, and the training
    compute C = 6 N D (Hoffmann et al. 2022) in 10^18 operations.
    """
    tokens, ratio = inputs["trained_on"].at(0, 0), inputs["per_parameter"].at(0, 0)
    size = _row(("size", "N", "fitting_size", "N = D / r", "trained_on / per_parameter"), [tokens / ratio])
    compute = ("compute", "C", "training_compute", "C = 6 N D", "6 * size * trained_on")
    return size, _row(compute, [number(6) * size.at(0, 0) * tokens])


def _cast(inputs: _Inputs) -> _Steps:
    """Compute what a cast to int8 stores of the whole numbers 0 to 255: above 127, it subtracts 256."""
    cells = [x - number(256) * holds(x, ">", number(127)) for x in inputs["byte"].row(0)]
    return (_row(("cast", "q", "cast_to_int8", "q = x − 256 [x > 127]", "byte - 256 * (byte > 127)"), cells),)


def _parts(inputs: _Inputs) -> _Steps:
    """Compute the percentages of the parts of a model."""
    parts = inputs["parts"]
    whole = _row(("whole", "n", "all_parts", "n = Σ p", "parts.sum(keepdims=True)"), [total(parts.row(0))])
    percent = ("percent", "s", "percent_of_all", "s = 100 × p / n", "100 * parts / whole")
    cells = [number(100) * part / whole.at(0, 0) for part in parts.row(0)]
    return whole, _row(percent, cells, parts.columns)


def _tenfold(inputs: _Inputs) -> _Steps:
    """Compute by how many percent ten times the parameters or tokens lower the loss (Kaplan et al. 2020, 1.1, 1.2)."""
    exponents = [inputs[name].at(0, 0) for name in ("alpha_n", "alpha_d")]
    line = "10.0 ** -np.concatenate([alpha_n, alpha_d], axis=1)"
    notation = ("factor", "f", "tenfold_factor", "f = 10^(−α)", line)
    factor = _row(notation, [power(number(10), -each) for each in exponents], ("N", "D"))
    notation = ("drop", "d", "tenfold_drop", "d = 100 × (1 − f)", "100 * (1 - factor)")
    return factor, _row(notation, [number(100) * (number(1) - each) for each in factor.row(0)], ("N", "D"))


def _reordered(inputs: _Inputs) -> _Steps:
    """Compute attention without mask and positions, Q = K = V = X, and again with the first and last token swapped."""
    x = inputs["X"]
    order = [x.shape[0] - 1, *range(1, x.shape[0] - 1), 0] if x.shape[0] > 1 else [0]
    tokens = tuple(x.rows[i] for i in order)
    notation = Notation("Y", "Y", "swapped", "Y = X[n, …, 1]", "Y = P X", f"Y = X[{order}]")
    swapped = step(notation, [x.row(i) for i in order], tokens)
    options = AttentionOptions(causal=False)
    usual = attention(dict.fromkeys("QKV", x), options)
    names = {each.name: f"{each.name}_Y" for each in usual}
    again = [renamed_step(each, names, "Y") for each in attention(dict.fromkeys("QKV", swapped), options)]
    return (*usual, swapped, *again)


def _one(symbol: str) -> Table:
    return Table(symbol, "1", "1", low=0, above=True)


WORKED_NUMBERS: dict[str, Sheet] = {
    "decay": Sheet(
        {"share": _one("r"), "layers": Table("n", "1", "1", low=1, high=16, whole=True)},
        {"twelve": SheetExample({"share": "0.9", "layers": "12"})},
        lambda inputs, options: _decay(inputs),
    ),
    "head": Sheet(
        {"d_model": _one("d"), "heads": _one("h"), "score": Table("q·k", "1", "1")},
        {"gpt2": SheetExample({"d_model": "768", "heads": "12", "score": "100"})},
        lambda inputs, options: _head(inputs),
    ),
    "cost": Sheet(
        {"rows_in": _one("n"), "columns_out": _one("m")},
        {"query": SheetExample({"rows_in": "4096", "columns_out": "4096"})},
        lambda inputs, options: _cost(inputs),
    ),
    "chinchilla": Sheet(
        {"trained_on": _one("D"), "per_parameter": _one("r")},
        {"chinchilla": SheetExample({"trained_on": "1400", "per_parameter": "20"})},
        lambda inputs, options: _chinchilla(inputs),
    ),
    "cast": Sheet(
        {"byte": Table("x", "1", "D", low=0, high=255, whole=True)},
        {"six": SheetExample({"byte": "0 100 127 128 200 255"})},
        lambda inputs, options: _cast(inputs),
    ),
    "parts": Sheet(
        {"parts": Table("p", "1", "V", low=0, above=True)},
        {"qwen3_8b": SheetExample({"parts": "622.3 6946.1 622.3"}, "embedding, layers, output head")},
        lambda inputs, options: _parts(inputs),
        {},
        "V",
    ),
    "tenfold": Sheet(
        {"alpha_n": _one("α_N"), "alpha_d": _one("α_D")},
        {"kaplan": SheetExample({"alpha_n": "0.076", "alpha_d": "0.095"})},
        lambda inputs, options: _tenfold(inputs),
    ),
    "reordered": Sheet(
        {"X": Table("X", "T", "D")},
        {"cats": SheetExample({"X": "1 0.2; 0.3 0.9; -0.5 0.4"}, "I, love, cats")},
        lambda inputs, options: _reordered(inputs),
        {},
        "T",
    ),
}
