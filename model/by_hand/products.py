"""Matrix products as steps."""

from model.by_hand.numbers import dot
from model.by_hand.steps import MatrixStep, Notation, step


def matmul(left: MatrixStep, right: MatrixStep, name: str, symbol: str, about: str, formula: str = "") -> MatrixStep:
    """Compute left [N × M] · right [M × K]: cell (i, j) is the dot product of row i of `left` and
    column j of `right`.
    """
    notation = Notation(
        name,
        symbol,
        about,
        formula or f"{symbol} = {left.symbol} · {right.symbol}",
        rf"{latex(symbol)} = {latex(left.symbol)} {latex(right.symbol)}",
        f"{name} = {left.name} @ {right.name}",
    )
    columns = [right.column(j) for j in range(right.shape[1])]
    return step(
        notation, [[dot(row, column) for column in columns] for row in left.all_rows()], left.rows, right.columns
    )


def latex(symbol: str) -> str:
    """Format a symbol in LaTeX: W_Q, Q^1, x̂."""
    base, _, up = symbol.partition("^")
    base, _, down = base.partition("_")
    signs = {
        "x̂": r"\hat{x}",
        "μ": r"\mu",
        "σ²": r"\sigma^2",
        "σ": r"\sigma",
        "γ": r"\gamma",
        "β": r"\beta",
        "θ": r"\theta",
        "ω": r"\omega",
        "ε": r"\varepsilon",
        "φ": r"\varphi",
    }
    text = signs.get(base, base)
    return text + (f"_{{{down}}}" if down else "") + (f"^{{({up})}}" if up else "")
