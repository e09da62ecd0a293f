"""LayerNorm, RMSNorm and BatchNorm on vectors entered by the user, with the population variance."""

from collections.abc import Mapping

from model.by_hand.numbers import Number, number, sqrt, square, total
from model.by_hand.steps import MatrixStep, Notation, step

KINDS = ("layer", "rms", "batch")


def norm(inputs: Mapping[str, MatrixStep], kind: str) -> tuple[MatrixStep, ...]:
    """Compute one norm of X [T × D]; the last step is its output [T × D].

    LayerNorm takes mean and variance over the dimensions of each token (Ba et al. 2016), BatchNorm over the tokens for
    each dimension (Ioffe & Szegedy 2015). Both divide by √(σ² + ε), where σ² has the divisor n, not n − 1. RMSNorm
    divides by √(mean of squares + ε) and has no β (Zhang & Sennrich 2019). γ, β [1 × D], eps [1 × 1].
    """
    x, gain, epsilon = inputs["X"], inputs["gamma"].row(0), inputs["eps"].at(0, 0)
    T, D = x.shape
    mark = {"layer": "LN", "rms": "RMS", "batch": "BN"}[kind]
    across = kind == "batch"
    axis = 0 if across else 1
    groups = [x.column(j) for j in range(D)] if across else x.all_rows()
    i, n = ("j", "T") if across else ("i", "D")
    steps: list[MatrixStep] = []

    def add(name: str, symbol: str, formula: str, latex: str, line: str, numbers: list[list[Number]]) -> MatrixStep:
        about = f"{name}_{kind}" if name in ("mean", "variance", "spread", "result") else name
        notation = Notation(f"{name}_{kind}", f"{symbol}^{mark}", about, formula, latex, f"{name}_{kind} = {line}")
        own = len(numbers) == T and (not across or len(numbers[0]) == D)
        steps.append(step(notation, numbers, x.rows if own else ()))
        return steps[-1]

    def lined(values: list[Number]) -> list[list[Number]]:
        """Place one number per group in a row for BatchNorm, otherwise in a column."""
        return [values] if across else [[each] for each in values]

    def of(statistic: MatrixStep, row: int, column: int) -> Number:
        return statistic.at(0, column) if across else statistic.at(row, 0)

    centered = x
    if kind != "rms":
        mean = add(
            "mean",
            "μ",
            f"μ_{i} = Σ x / {n}",
            rf"\mu_{i} = \frac{{1}}{{{n}}} \sum x",
            f"X.mean({axis}, keepdims=True)",
            lined([total(group) / number(len(group)) for group in groups]),
        )
        centered = add(
            "centred",
            "D",
            f"D_ij = x_ij − μ_{i}",
            rf"D_{{ij}} = x_{{ij}} - \mu_{i}",
            f"X - mean_{kind}",
            [[x.at(r, c) - of(mean, r, c) for c in range(D)] for r in range(T)],
        )
    squares = add(
        "squares",
        "D²" if kind != "rms" else "x²",
        "D²_ij = D_ij²" if kind != "rms" else "x²_ij = x_ij²",
        r"D_{ij}^2" if kind != "rms" else r"x_{ij}^2",
        f"{centered.name}**2",
        [[square(each) for each in row] for row in centered.all_rows()],
    )
    within = [squares.column(j) for j in range(D)] if across else squares.all_rows()
    sign, tex = ("q", "q") if kind == "rms" else ("σ²", r"\sigma^2")
    variance = add(
        "variance",
        sign,
        f"{sign}_{i} = Σ {squares.symbol.partition('^')[0]} / {n}",
        rf"{tex}_{i} = \frac{{1}}{{{n}}} \sum {'x^2' if kind == 'rms' else 'D^2'}",
        f"squares_{kind}.mean({axis}, keepdims=True)",
        lined([total(group) / number(len(group)) for group in within]),
    )
    spread = add(
        "spread",
        "s",
        f"s_{i} = √({sign}_{i} + ε)",
        rf"s_{i} = \sqrt{{{tex}_{i} + \varepsilon}}",
        f"np.sqrt(variance_{kind} + eps)",
        [[sqrt(each + epsilon) for each in row] for row in variance.all_rows()],
    )
    scaled = add(
        "scaled",
        "x̂",
        f"x̂_ij = {centered.symbol.partition('^')[0]}_ij / s_{i}",
        rf"\hat{{x}}_{{ij}} = {'x' if kind == 'rms' else 'D'}_{{ij}} / s_{i}",
        f"{centered.name} / spread_{kind}",
        [[centered.at(r, c) / of(spread, r, c) for c in range(D)] for r in range(T)],
    )
    if kind == "rms":
        result = [[scaled.at(r, c) * gain[c] for c in range(D)] for r in range(T)]
        add("result", "y", "y_ij = γ_j x̂_ij", r"y_{ij} = \gamma_j \hat{x}_{ij}", "gamma * scaled_rms", result)
    else:
        bias = inputs["beta"].row(0)
        result = [[scaled.at(r, c) * gain[c] + bias[c] for c in range(D)] for r in range(T)]
        add(
            "result",
            "y",
            "y_ij = γ_j x̂_ij + β_j",
            r"y_{ij} = \gamma_j \hat{x}_{ij} + \beta_j",
            f"gamma * scaled_{kind} + beta",
            result,
        )
    return tuple(steps)
