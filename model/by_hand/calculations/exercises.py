"""Sheets that are used only in exercises: sizes of an MLP, speculative sampling, and a scaling law."""

from collections.abc import Mapping

from model.by_hand.calculations.worked_numbers import WORKED_NUMBERS
from model.by_hand.numbers import Number, dot, largest, number, power, smallest, total
from model.by_hand.sheets import Sheet, SheetExample
from model.by_hand.steps import MatrixStep, Notation, step
from model.by_hand.tables import Table


def _sizes(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute the width and the number of parameters of a gated MLP: three d × m matrices, no biases (Shazeer 2020)."""
    d, ratio = inputs["d_model"].at(0, 0), inputs["ratio"].at(0, 0)
    width = step(
        Notation("d_mlp", "d_mlp", "mlp_width", "m = r d", "m = r d", "d_mlp = ratio * d_model"), [[ratio * d]]
    )
    m = width.at(0, 0)
    notation = Notation("matrix", "W", "one_matrix", "d m", "d m", "matrix = d_model * d_mlp")
    matrix = step(notation, [[d * m]])
    notation = Notation("parameters", "n", "three_matrices", "n = 3 d m", "n = 3 d m", "parameters = 3 * matrix")
    return width, matrix, step(notation, [[number(3) * matrix.at(0, 0)]])


def _speculative(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute the distribution of one token in speculative sampling, with p of the large model and q of the draft model
    (Leviathan et al. 2023, theorem 3.5).

    A draft token is accepted with probability min(1, p / q); after a rejection, the token is drawn from max(0, p − q),
    normalized. The resulting distribution is p.
    """
    p, q, names = inputs["large"].row(0), inputs["draft"].row(0), inputs["large"].columns

    def row(name: str, symbol: str, about: str, formula: str, latex: str, line: str, cells: list[Number]) -> MatrixStep:
        return step(Notation(name, symbol, about, formula, latex, f"{name} = {line}"), [cells], (), names)

    kept = row(
        "kept_share",
        "a",
        "accepted",
        "a = min(1, p / q)",
        r"a = \min(1, p / q)",
        "np.minimum(1, large / draft)",
        [smallest([number(1), x / y]) for x, y in zip(p, q, strict=True)],
    )
    excess = [largest([number(0), x - y]) for x, y in zip(p, q, strict=True)]
    over = row(
        "excess", "e", "excess", "e = max(0, p − q)", r"e = \max(0, p - q)", "np.maximum(0, large - draft)", excess
    )
    redrawn = row(
        "again",
        "r",
        "after_rejection",
        "r = e / Σ e",
        r"r = e / \textstyle\sum e",
        "excess / excess.sum()",
        [each / total(over.row(0)) for each in over.row(0)],
    )
    rejected = number(1) - dot(q, kept.row(0))
    out = row(
        "out",
        "o",
        "comes_out",
        "o = q a + (1 − Σ q a) r",
        r"o = q a + (1 - \textstyle\sum q a)\, r",
        "draft * kept_share + (1 - (draft * kept_share).sum()) * again",
        [y * a + rejected * r for y, a, r in zip(q, kept.row(0), redrawn.row(0), strict=True)],
    )
    return kept, over, redrawn, out


def _law(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute the joint law L(N, D) = ((N_c / N)^(α_N / α_D) + D_c / D)^α_D of Kaplan et al. 2020, equation 1.5."""
    n, n_c, d, d_c, a, b = (inputs[name].at(0, 0) for name in ("n", "n_c", "d_tokens", "d_c", "alpha_n", "alpha_d"))
    few = step(
        Notation(
            "by_size",
            "x",
            "from_size",
            "x = (N_c / N)^(α_N / α_D)",
            r"x = (N_c / N)^{\alpha_N / \alpha_D}",
            "by_size = (n_c / n) ** (alpha_n / alpha_d)",
        ),
        [[power(n_c / n, a / b)]],
    )
    short = step(
        Notation("by_data", "y", "from_data", "y = D_c / D", "y = D_c / D", "by_data = d_c / d_tokens"), [[d_c / d]]
    )
    notation = Notation(
        "loss_law",
        "L",
        "joint_loss",
        "L = (x + y)^α_D",
        r"L = (x + y)^{\alpha_D}",
        "loss_law = (by_size + by_data) ** alpha_d",
    )
    return few, short, step(notation, [[power(few.at(0, 0) + short.at(0, 0), b)]])


def _one(symbol: str) -> Table:
    return Table(symbol, "1", "1", low=0, above=True)


EXERCISE_SHEETS: dict[str, Sheet] = {
    "mlp_sizes": Sheet(
        {"d_model": _one("d"), "ratio": _one("r")},
        {"qwen3_8b": SheetExample({"d_model": "4096", "ratio": "3"})},
        lambda inputs, options: _sizes(inputs),
    ),
    "speculative": Sheet(
        {name: Table(symbol, "1", "V", low=0, high=1) for name, symbol in (("large", "p"), ("draft", "q"))},
        {"four_tokens": SheetExample({"large": "0.5 0.3 0.15 0.05", "draft": "0.3 0.2 0.4 0.1"}, "a, b, c, d")},
        lambda inputs, options: _speculative(inputs),
        {},
        "V",
    ),
    "law": Sheet(
        {
            "n": _one("N"),
            "n_c": _one("N_c"),
            "d_tokens": _one("D"),
            "d_c": _one("D_c"),
            "alpha_n": _one("α_N"),
            "alpha_d": _one("α_D"),
        },
        {
            "kaplan": SheetExample(
                {"n": "1.5", "n_c": "88000", "d_tokens": "22", "d_c": "54000", "alpha_n": "0.076", "alpha_d": "0.095"}
            )
        },
        lambda inputs, options: _law(inputs),
    ),
    **WORKED_NUMBERS,
}
