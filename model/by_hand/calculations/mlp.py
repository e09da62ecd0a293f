"""A linear layer, and an MLP with its activation function and residual connection."""

from collections.abc import Mapping
from fractions import Fraction

from model.by_hand.numbers import Number, constant, dot, exp, largest, normal_below, number, pi, power, sqrt, tanh
from model.by_hand.products import latex
from model.by_hand.steps import MatrixStep, Notation, each, step

ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_sigmoid", "relu", "silu")
_NUMPY = {
    "relu": "np.maximum({0}, 0)",
    "silu": "{0} / (1 + np.exp(-{0}))",
    "gelu_sigmoid": "{0} / (1 + np.exp(-1.702 * {0}))",
    "gelu": "{0} * np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2)({0})",
    "gelu_tanh": "{0} * (1 + np.tanh(np.sqrt(2 / np.pi) * ({0} + 0.044715 * {0}**3))) / 2",
}
_FORMULAS = {
    "relu": "max({0}, 0)",
    "silu": "{0} / (1 + e^(−{0}))",
    "gelu": "{0} Φ({0})",
    "gelu_sigmoid": "{0} / (1 + e^(−1.702 {0}))",
    "gelu_tanh": "{0} (1 + tanh(√(2/π) ({0} + 0.044715 {0}³))) / 2",
}
_LATEX = {
    "relu": r"\max(@, 0)",
    "silu": r"\frac{@}{1 + e^{-@}}",
    "gelu": r"@\,\Phi(@)",
    "gelu_sigmoid": r"\frac{@}{1 + e^{-1.702\,@}}",
    "gelu_tanh": r"\tfrac{@}{2}\left(1 + \tanh\left(\sqrt{2/\pi}\,(@ + 0.044715\,@^3)\right)\right)",
}


def activated(x: Number, kind: str) -> Number:
    """Apply an activation function to one number: GELU, exact or approximated with tanh or σ(1.702 x)
    (Hendrycks & Gimpel 2016), ReLU, or SiLU.
    """
    if kind == "relu":
        return largest([x, number(0)])
    if kind == "silu":
        return x / (number(1) + exp(-x))
    if kind == "gelu_sigmoid":
        return x / (number(1) + exp(-(constant("1.702", number(Fraction("1.702"))) * x)))
    if kind == "gelu":
        return x * normal_below(x)
    factor = constant("√(2/π)", sqrt(number(2) / number(pi())))
    cubed = power(x, number(3)) * constant("0.044715", number(Fraction("0.044715")))
    return x * (number(1) + tanh(factor * (x + cubed))) / number(2)


def linear(
    x: MatrixStep, weight: MatrixStep, bias: MatrixStep | None, name: str, symbol: str, about: str
) -> MatrixStep:
    """Compute x [T × D] · W [D × M] + b [1 × M]."""
    columns = [weight.column(j) for j in range(weight.shape[1])]
    numbers = [[dot(row, column) for column in columns] for row in x.all_rows()]
    if bias:
        numbers = [[each + bias.at(0, j) for j, each in enumerate(row)] for row in numbers]
    plus, line = (f" + {bias.symbol}", f" + {bias.name}") if bias else ("", "")
    tail = f" + {latex(bias.symbol)}" if bias else ""
    notation = Notation(
        name,
        symbol,
        about,
        f"{symbol} = {x.symbol} · {weight.symbol}{plus}",
        f"{latex(symbol)} = {latex(x.symbol)} {latex(weight.symbol)}{tail}",
        f"{name} = {x.name} @ {weight.name}{line}",
    )
    return step(notation, numbers, x.rows)


def mlp(inputs: Mapping[str, MatrixStep], activation: str, residual: bool) -> tuple[MatrixStep, ...]:
    """Compute a linear layer if the inputs contain W, otherwise an MLP; the last step is the output.

    Inputs: x [T × D], W [D × M], b [1 × M]; or W_1 [D × M], b_1, W_2 [M × D], b_2, and for a gated MLP also W_G [D ×
    M]. The gated MLP is SwiGLU, SiLU(x · W_G) ⊙ (x · W_1), regardless of `activation` (Shazeer 2020). `residual`: x is
    added to the output.
    """
    x = inputs["x"]
    if "W" in inputs:
        return (linear(x, inputs["W"], inputs["b"], "y", "y", "linear"),)
    hidden = linear(x, inputs["W_1"], inputs.get("b_1"), "h", "h", "hidden")
    steps = [hidden]
    before = hidden
    if "W_G" in inputs:
        activation = "silu"
        before = linear(x, inputs["W_G"], None, "g", "g", "gate")
        steps.append(before)
    notation = Notation(
        "a",
        "a",
        f"active_{activation}",
        f"a = {_FORMULAS[activation].format(before.symbol)}",
        f"a = {_LATEX[activation].replace('@', before.symbol)}",
        f"a = {_NUMPY[activation].format(before.name)}",
    )
    steps.append(step(notation, each(lambda value: activated(value, activation), before), x.rows))
    inner = steps[-1]
    if "W_G" in inputs:
        product = [[inner.at(i, j) * hidden.at(i, j) for j in range(inner.shape[1])] for i in range(inner.shape[0])]
        steps.append(step(Notation("p", "p", "gated", "p = a ⊙ h", r"p = a \odot h", "p = a * h"), product, x.rows))
        inner = steps[-1]
    steps.append(linear(inner, inputs["W_2"], inputs.get("b_2"), "f", "f", "back"))
    if residual:
        last = steps[-1]
        numbers = [[x.at(i, j) + last.at(i, j) for j in range(last.shape[1])] for i in range(last.shape[0])]
        steps.append(step(Notation("y", "y", "residual", "y = x + f", "y = x + f", "y = x + f"), numbers, x.rows))
    return tuple(steps)
