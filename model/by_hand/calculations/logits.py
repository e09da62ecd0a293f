"""From logits to a token: temperature, softmax, top-k, top-p, and cross-entropy; and the probability of a complete
text.
"""

from collections.abc import Mapping

from model.by_hand.calculations.softmax import Softmax, softmax
from model.by_hand.numbers import Number, holds, ln, number, product, total
from model.by_hand.numbers import exp as power_of_e
from model.by_hand.steps import MatrixStep, Notation, step
from model.errors import InputError, say


def logits(inputs: Mapping[str, MatrixStep], how: Softmax) -> tuple[MatrixStep, ...]:
    """Compute the sampling distribution and the loss from logits z [1 × V]; the distribution alone from probabilities
    `shares` [1 × V], or the probability of a text if P is given (see `chain`).

    Inputs: z; temperature T, k, p, and `target`, the index of the correct token counted from 1, all [1 × 1]. Top-k
    keeps the k most likely tokens (Fan et al. 2018); among those, top-p keeps the smallest set whose total probability
    reaches p (Holtzman et al. 2020). Raises InputError for a target out of range.
    """
    if "P" in inputs:
        return chain(inputs["P"])
    if "shares" in inputs:
        given = inputs["shares"]
        notation = Notation(
            "P", "P", "normalized", "P_i = w_i / Σ w", r"P_i = w_i / \sum_j w_j", "P = shares / shares.sum()"
        )
        typed = step(notation, [[each / total(given.row(0)) for each in given.row(0)]], (), given.columns)
        return (typed, *_cuts(typed, inputs))
    z, temperature, names = inputs["z"], inputs["T"].at(0, 0), inputs["z"].columns
    target = int(inputs["target"].cells[0][0].value)
    if target > z.shape[1]:
        raise InputError("No token has this number.", str(target), say("Tokens run from 1 to {}.", z.shape[1]))
    notation = Notation("S", "S", "tempered", "S_i = z_i / T", "S_i = z_i / T", "S = z / T")
    steps = [step(notation, [[each / temperature for each in z.row(0)]], (), names)]
    steps += softmax(steps[0], how, "", ("P", "P"))
    chosen = steps[-1].at(0, target - 1)
    steps += _cuts(steps[-1], inputs)
    notation = Notation(
        "L",
        "L",
        "loss",
        f"L = −ln P_{target}",
        rf"L = -\ln P_{{{target}}}",
        f"L = -np.log(P[:, [{target - 1}]])",
    )
    steps.append(step(notation, [[-ln(chosen)]]))
    notation = Notation("PPL", "PPL", "perplexity", "PPL = e^L", r"\mathrm{PPL} = e^{L}", "PPL = np.exp(L)")
    return (*steps, step(notation, [[power_of_e(steps[-1].at(0, 0))]]))


def _cuts(distribution: MatrixStep, inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute what top-k and then top-p leave of a distribution [1 × V], from the ranks to the renormalized result."""
    shares, names, steps = distribution.row(0), distribution.columns, []

    def add(
        name: str, symbol: str, about: str, formula: str, latex: str, line: str, numbers: list[Number]
    ) -> MatrixStep:
        wide = names if len(numbers) == len(names) else ()
        steps.append(step(Notation(name, symbol, about, formula, latex, f"{name} = {line}"), [numbers], (), wide))
        return steps[-1]

    rank = add(
        "r",
        "r",
        "rank",
        "r_i = 1 + Σ_j [P_j > P_i]",
        r"r_i = 1 + \sum_j [P_j > P_i]",
        "1 + ((P.T > P) | ((P.T == P) & (np.arange(P.size)[:, None] < np.arange(P.size)))).sum(0, keepdims=True)",
        _ranks(shares),
    )
    kept = add(
        "K",
        "K",
        "top_k",
        "K_i = P_i [r_i ≤ k]",
        r"K_i = P_i\,[r_i \le k]",
        "P * (r <= k)",
        [x * holds(r, "≤", inputs["k"].at(0, 0)) for x, r in zip(shares, rank.row(0), strict=True)],
    )
    renormalized = add(
        "R",
        "R",
        "top_k_again",
        "R_i = K_i / Σ K",
        r"R_i = K_i / \sum_j K_j",
        "K / K.sum()",
        [x / total(kept.row(0)) for x in kept.row(0)],
    )
    before = add(
        "B",
        "B",
        "before",
        "B_i = Σ_j R_j [r_j < r_i]",
        r"B_i = \sum_j R_j\,[r_j < r_i]",
        "np.where(r.T < r, R.T, 0).sum(0, keepdims=True)",
        [total(renormalized.at(0, j) for j in _larger(rank, i)) for i in range(len(shares))],
    )
    nucleus = add(
        "N",
        "N",
        "top_p",
        "N_i = R_i [p > B_i]",
        r"N_i = R_i\,[p > B_i]",
        "R * (p > B)",
        [x * holds(inputs["p"].at(0, 0), ">", b) for x, b in zip(renormalized.row(0), before.row(0), strict=True)],
    )
    add(
        "D",
        "D",
        "drawn",
        "D_i = N_i / Σ N",
        r"D_i = N_i / \sum_j N_j",
        "N / N.sum()",
        [x / total(nucleus.row(0)) for x in nucleus.row(0)],
    )
    return tuple(steps)


def _ranks(shares: list[Number]) -> list[Number]:
    """Compute the ranks in decreasing order, from 1; of equal numbers, the first ranks higher."""
    result = []
    for i, x in enumerate(shares):
        larger = [holds(y, ">", x) for j, y in enumerate(shares) if j > i]
        larger = [_not_below(y, x) for y in shares[:i]] + larger
        result.append(number(1) + total(larger) if larger else number(1))
    return result


def _not_below(y: Number, x: Number) -> Number:
    """Compute [x ≤ y]: 1 if x ≤ y, otherwise 0."""
    return holds(x, "≤", y)


def _larger(rank: MatrixStep, i: int) -> list[int]:
    """Return the indices of the tokens that rank above token i."""
    own = rank.cells[0]
    return [j for j in range(len(own)) if own[j].value < own[i].value]


def chain(tokens: MatrixStep) -> tuple[MatrixStep, ...]:
    """Compute the probability of a text as the product of its tokens' probabilities P [1 × n], each given all previous
    tokens.

    P(x_1 … x_n) = Π_t P(x_t | x_<t). Its logarithm is a sum, which does not underflow for a long text. The loss is the
    mean of −ln P, and the perplexity is e^loss (Jelinek et al. 1977).
    """
    shares, n = tokens.row(0), tokens.shape[1]
    names = tokens.columns
    running = [product(shares[: t + 1]) for t in range(n)]
    steps = [
        step(
            Notation("W", "W", "so_far", "W_t = P_1 × … × P_t", r"W_t = \prod_{s \le t} P_s", "W = P.cumprod(1)"),
            [running],
            (),
            names,
        )
    ]
    logs = step(
        Notation("l", "l", "logs", "l_t = −ln P_t", r"l_t = -\ln P_t", "l = -np.log(P)"),
        [[-ln(each) for each in shares]],
        (),
        names,
    )
    notation = Notation("s", "s", "log_total", "s = Σ l_t = −ln W_n", r"s = \sum_t l_t", "s = l.sum(keepdims=True)")
    summed = step(notation, [[total(logs.row(0))]])
    notation = Notation("L", "L", "mean_loss", "L = s / n", "L = s / n", f"L = s / {n}")
    mean = step(notation, [[summed.at(0, 0) / number(n)]])
    notation = Notation("PPL", "PPL", "perplexity", "PPL = e^L", r"\mathrm{PPL} = e^{L}", "PPL = np.exp(L)")
    return (*steps, logs, summed, mean, step(notation, [[power_of_e(mean.at(0, 0))]]))
