"""Attention with one to four heads on vectors entered by the user (Vaswani et al. 2017, sections 3.2.1 and 3.2.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.by_hand.calculations.softmax import Softmax, softmax
from model.by_hand.numbers import MINUS_INFINITY, constant, dot, number, sqrt
from model.by_hand.products import matmul
from model.by_hand.steps import MatrixStep, Notation, step
from model.errors import InputError, say

HEADS = (1, 2, 3, 4)


@dataclass(frozen=True)
class AttentionOptions:
    """Variants of the calculation."""

    heads: int = 1
    causal: bool = True  # each token attends only to itself and earlier tokens
    scaled: bool = True  # scores are divided by √d, where d is the width of a head
    softmax: Softmax = field(default_factory=Softmax)


def attention(inputs: Mapping[str, MatrixStep], options: AttentionOptions) -> tuple[MatrixStep, ...]:
    """Compute attention, with all intermediate matrices as steps; the last step is the output [T × D].

    `inputs`: X [T × D] with W_Q, W_K, W_V [D × E], or Q, K, V [T × E] directly; optionally W_O. Raises InputError if
    the width is not divisible by the number of heads, or if W_O does not fit.
    """
    steps: list[MatrixStep] = []
    if "X" in inputs:
        steps += [matmul(inputs["X"], inputs[f"W_{n}"], n, n, f"project_{n.lower()}") for n in "QKV"]
        q, k, v = steps
    else:
        q, k, v = (inputs[n] for n in "QKV")
    heads = options.heads
    for each in (q, v):
        if each.shape[1] % heads:
            what = say("{} columns cannot be split into {} heads of the same width.", each.shape[1], heads)
            raise InputError(what, each.symbol, "Choose another number of heads, or other widths.")
    outputs = []
    for h in range(heads):
        mine = [_slice(each, h, heads) if heads > 1 else each for each in (q, k, v)]
        steps += mine if heads > 1 else []
        head = _head((mine[0], mine[1], mine[2]), options, str(h + 1) if heads > 1 else "")
        steps += head
        outputs.append(head[-1])
    result = outputs[0]
    if heads > 1:
        steps.append(_concat(outputs))
        result = steps[-1]
    if "W_O" in inputs:
        if inputs["W_O"].shape[0] != result.shape[1]:
            misfit = say(
                "W_O has {} rows, but the heads' output has {} columns.", inputs["W_O"].shape[0], result.shape[1]
            )
            raise InputError(misfit, "", "Give W_O a row for each column of V.")
        steps.append(matmul(result, inputs["W_O"], "Y", "Y", "output"))
    return tuple(steps)


def _slice(matrix: MatrixStep, h: int, heads: int) -> MatrixStep:
    """Select the columns of head `h`, as a step."""
    width = matrix.shape[1] // heads
    first = h * width
    notation = Notation(
        f"{matrix.name}_{h + 1}",
        f"{matrix.symbol}^{h + 1}",
        "split",
        f"{matrix.symbol}^({h + 1}) = {matrix.symbol}[:, {first + 1}…{first + width}]",
        rf"{matrix.symbol}^{{({h + 1})}} = {matrix.symbol}_{{:,{first + 1}:{first + width}}}",
        f"{matrix.name}_{h + 1} = {matrix.name}[:, {first}:{first + width}]",
    )
    return step(notation, [row[first : first + width] for row in matrix.all_rows()], matrix.rows)


def _head(qkv: tuple[MatrixStep, MatrixStep, MatrixStep], options: AttentionOptions, mark: str) -> list[MatrixStep]:
    """Compute scores, mask, softmax and weighted values of one head."""
    s, up = f"_{mark}" if mark else "", f"^{mark}" if mark else ""
    q, k, v = qkv
    (T, width), tokens = q.shape, q.rows
    root = constant("√d", sqrt(number(width)))
    scores = [[dot(q.row(i), k.row(j)) for j in range(T)] for i in range(T)]
    if options.scaled:
        scores = [[x / root for x in row] for row in scores]
    line = f"S{s} = {q.name} @ {k.name}.T" + (f" / np.sqrt({width})" if options.scaled else "")
    tail, bottom = (" / √d", r" / \sqrt{d}") if options.scaled else ("", "")
    formula, latex = f"S_ij = Q_i · K_j{tail}", rf"S = Q K^{{\top}}{bottom}"
    steps = [step(Notation(f"S{s}", f"S{up}", "scores", formula, latex, line), scores, tokens, tokens)]
    if options.causal:
        last = steps[-1]
        masked = [[last.at(i, j) if j <= i else MINUS_INFINITY for j in range(T)] for i in range(T)]
        line = f"M{s} = np.where(np.tri({T}, dtype=bool), S{s}, -np.inf)"
        latex = r"M_{ij} = S_{ij} \text{ for } j \le i, \text{ else } -\infty"
        notation = Notation(f"M{s}", f"M{up}", "mask", "M_ij = S_ij,  j ≤ i;  −∞,  j > i", latex, line)
        steps.append(step(notation, masked, tokens, tokens))
    steps += softmax(steps[-1], options.softmax, mark)
    weights = steps[-1]
    notation = Notation(
        f"O{s}", f"O{up}", "values", "O_i = Σ_j A_ij V_j", r"O = A V", f"O{s} = {weights.name} @ {v.name}"
    )
    columns = [v.column(j) for j in range(v.shape[1])]
    steps.append(step(notation, [[dot(row, column) for column in columns] for row in weights.all_rows()], tokens))
    return steps


def _concat(outputs: list[MatrixStep]) -> MatrixStep:
    """Concatenate the heads' outputs along the columns."""
    rows = [[x for each in outputs for x in each.row(i)] for i in range(outputs[0].shape[0])]
    names = ", ".join(each.name for each in outputs)
    text = ", ".join(f"O^({n + 1})" for n in range(len(outputs)))
    latex = r"C = \left[" + r",\ ".join(f"O^{{({n + 1})}}" for n in range(len(outputs))) + r"\right]"
    notation = Notation("C", "C", "concat", f"C = [{text}]", latex, f"C = np.concatenate([{names}], axis=1)")
    return step(notation, rows, outputs[0].rows)
