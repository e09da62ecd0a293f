"""Row-wise softmax with all steps, with or without subtraction of the maximum, in exact numbers or in a float type."""

from dataclasses import dataclass

from model.by_hand.numbers import FLOATS, Number, exp, largest, stored, total
from model.by_hand.steps import MatrixStep, Notation, each, step

KINDS = ("exact", *FLOATS)


@dataclass(frozen=True)
class Softmax:
    """Options of the softmax."""

    stable: bool = True  # subtract the maximum of each row first
    kind: str = "exact"  # "exact", or the float type to which each step is rounded


def softmax(
    scores: MatrixStep, how: Softmax, mark: str = "", out: tuple[str, str] = ("A", "A")
) -> tuple[MatrixStep, ...]:
    """Compute attention weights from scores row by row. The last step contains the weights; `out` is its name and
    symbol.

    A_ij = e^(S_ij − m_i) / Σ_k e^(S_ik − m_i), which is the same for all m_i; if m_i is the row's maximum, no
    exponential exceeds 1 (Goodfellow et al. 2016, section 4.1). `mark` distinguishes the steps of several heads.
    """
    steps: list[MatrixStep] = []
    rows, columns = scores.rows, scores.columns
    held = _held(how.kind)
    s, up = f"_{mark}" if mark else "", f"^{mark}" if mark else ""

    def add(notation: Notation, numbers: list[list[Number]], columns: tuple[str, ...] = ()) -> MatrixStep:
        steps.append(step(notation, numbers, rows, columns))
        return steps[-1]

    base = scores
    if how.kind != "exact":
        cast = f"F{s} = {scores.name}.astype(np.{how.kind})"
        notation = Notation(f"F{s}", f"F{up}", "stored", f"F = {how.kind}(S)", rf"F = \text{{{how.kind}}}(S)", cast)
        base = add(notation, each(held, scores), columns)
    shown = base.name
    if how.stable:
        top = add(
            Notation(
                f"m{s}",
                f"m{up}",
                "peak",
                "m_i = max_j S_ij",
                r"m_i = \max_j S_{ij}",
                f"m{s} = {shown}.max(1, keepdims=True)",
            ),
            [[largest(row)] for row in base.all_rows()],
        )
        exponentials = [[held(exp(x - top.at(i, 0))) for x in base.row(i)] for i in range(base.shape[0])]
        formula, latex = "E_ij = e^(S_ij − m_i)", r"E_{ij} = e^{S_{ij} - m_i}"
        line = f"E{s} = np.exp({shown} - m{s})"
    else:
        exponentials = each(lambda x: held(exp(x)), base)
        formula, latex, line = "E_ij = e^(S_ij)", r"E_{ij} = e^{S_{ij}}", f"E{s} = np.exp({shown})"
    powers = add(Notation(f"E{s}", f"E{up}", "exponentials", formula, latex, line), exponentials, columns)
    sums = add(
        Notation(
            f"Z{s}", f"Z{up}", "sums", "Z_i = Σ_j E_ij", r"Z_i = \sum_j E_{ij}", f"Z{s} = E{s}.sum(1, keepdims=True)"
        ),
        [[held(total(row))] for row in powers.all_rows()],
    )
    name, symbol = out
    about = "probabilities" if symbol == "P" else "weights"
    add(
        Notation(
            f"{name}{s}",
            f"{symbol}{up}",
            about,
            f"{symbol}_ij = E_ij / Z_i",
            rf"{symbol}_{{ij}} = E_{{ij}} / Z_i",
            f"{name}{s} = E{s} / Z{s}",
        ),
        [[held(x / sums.at(i, 0)) for x in powers.row(i)] for i in range(powers.shape[0])],
        columns,
    )
    return tuple(steps)


def _held(kind: str):
    return (lambda x: x) if kind == "exact" else (lambda x: stored(x, kind))
