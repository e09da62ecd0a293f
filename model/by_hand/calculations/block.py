"""A whole transformer layer on vectors entered by the user: norm, attention, residual, norm, MLP, residual."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from model.by_hand.calculations.attention import AttentionOptions, attention
from model.by_hand.calculations.mlp import mlp
from model.by_hand.calculations.norms import norm
from model.by_hand.products import latex
from model.by_hand.steps import MatrixStep, Notation, renamed_step, step

PLACEMENTS = ("pre", "post")
NORMS = ("layer", "rms")


@dataclass(frozen=True)
class BlockOptions:
    """Variants of the layer."""

    placement: str = "pre"  # the norms before attention and MLP, or after the sums
    norm: str = "layer"
    activation: str = "gelu"


def block(inputs: Mapping[str, MatrixStep], options: BlockOptions) -> tuple[MatrixStep, ...]:
    """Compute a transformer layer on X [T × D] with causal attention of one head; the last step is its output [T × D].

    Pre-norm: r = X + attention(norm₁(X)), y = r + MLP(norm₂(r)) (Radford et al. 2019). Post-norm: r = norm₁(X +
    attention(X)), y = norm₂(r + MLP(r)) (Vaswani et al. 2017).

    `inputs`: X, gamma_1, beta_1, gamma_2, beta_2 [1 × D], eps, and the weights W_Q, W_K, W_V, W_O, W_1, b_1, W_2, b_2;
    or, in place of the weights, the outputs from_attention and from_mlp [T × D]. With X and from_layer [T × D] alone,
    only y = X + f.
    """
    x = inputs["X"]
    if "from_layer" in inputs:
        return (_sum(x, inputs["from_layer"], "y", "plus_layer"),)
    pre = options.placement == "pre"
    steps: list[MatrixStep] = []

    def normed(of: MatrixStep, n: int) -> MatrixStep:
        steps.extend(_norm(of, inputs, n, options.norm))
        return steps[-1]

    def attended(of: MatrixStep) -> MatrixStep:
        if "from_attention" in inputs:
            return inputs["from_attention"]
        weights = {name: inputs[name] for name in ("W_Q", "W_K", "W_V", "W_O")}
        steps.extend(attention({"X": of, **weights}, AttentionOptions()))
        return steps[-1]

    def transformed(of: MatrixStep) -> MatrixStep:
        if "from_mlp" in inputs:
            return inputs["from_mlp"]
        weights = {name: inputs[name] for name in ("W_1", "b_1", "W_2", "b_2")}
        steps.extend(mlp({"x": of, **weights}, options.activation, residual=False))
        return steps[-1]

    def added(of: MatrixStep, part: MatrixStep, name: str, about: str) -> MatrixStep:
        steps.append(_sum(of, part, name, about))
        return steps[-1]

    if pre:
        middle = added(x, attended(normed(x, 1)), "r", "plus_attention")
        added(middle, transformed(normed(middle, 2)), "y", "plus_mlp")
    else:
        middle = normed(added(x, attended(x), "r", "plus_attention"), 1)
        normed(added(middle, transformed(middle), "t", "plus_mlp"), 2)
    return tuple(steps)


def _sum(left: MatrixStep, right: MatrixStep, name: str, about: str) -> MatrixStep:
    """Add two matrices of the same shape."""
    rows, columns = left.shape
    numbers = [[left.at(i, j) + right.at(i, j) for j in range(columns)] for i in range(rows)]
    notation = Notation(
        name,
        name,
        about,
        f"{name} = {left.symbol} + {right.symbol}",
        f"{name} = {latex(left.symbol)} + {latex(right.symbol)}",
        f"{name} = {left.name} + {right.name}",
    )
    return step(notation, numbers, left.rows)


def _norm(x: MatrixStep, inputs: Mapping[str, MatrixStep], n: int, kind: str) -> tuple[MatrixStep, ...]:
    """Compute the n-th norm of the layer; the names of its steps end in n."""
    given = {"X": x, "gamma": inputs[f"gamma_{n}"], "beta": inputs[f"beta_{n}"]}
    steps = norm({"eps": inputs["eps"]} | {key: replace(each, name=key) for key, each in given.items()}, kind)
    names = {key: each.name for key, each in given.items()}
    names |= {each.name: f"{each.name.removesuffix(kind)}{n}" for each in steps}
    renamed = [renamed_step(each, names, str(n)) for each in steps]
    last = replace(renamed[-1], symbol=f"n_{n}", about=f"norm_{n}", formula=renamed[-1].formula.replace("y_", "n_"))
    return (*renamed[:-1], last)
