"""A distribution as a bar that random numbers fall on, and many draws against what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text, shorten, visible
from viz.theme import HUES, frame_layout
from viz.views.predictions.figures import percent

MOST = 200  # parts of the bar that are sent; what is left is one part
THIN = 1 / 2000  # of the bar: a part below this is less than a pixel wide
TOP = 12  # tokens compared one by one
RUG = 240  # bins of the random numbers below the bar
_ROW = 27  # pixels of a token in the figure
_GREY, _ORANGE = "rgba(128,134,150,0.45)", HUES[4]
_WHISKER = "#2a8fd0"  # seen on the bars of a light and of a dark page


@dataclass(frozen=True)
class Line:
    """One token, or all others together: what is expected of n draws, what came, and what is usual."""

    name: str  # as the page shows it
    share: float
    count: int
    low: int  # of the band
    high: int

    @property
    def inside(self) -> bool:
        """Whether what came is usual."""
        return self.low <= self.count <= self.high


def single(shares: np.ndarray) -> int:
    """How many parts of the bar are shown one by one: those that can be seen. Falling shares [n], sum 1"""
    wide = min(max(int((shares >= THIN).sum()), 1), MOST)
    return len(shares) if len(shares) - wide == 1 else wide


def label(piece: str) -> str:
    """A token on the bar and in the figure."""
    return shorten(visible(piece), 24)


def rug(u: np.ndarray) -> list[int]:
    """How many of the random numbers fall into each of RUG equal parts of the bar."""
    return np.histogram(u, RUG, (0, 1))[0].tolist()


def groups(shares: np.ndarray, counts: np.ndarray, top: int = TOP) -> tuple[np.ndarray, np.ndarray]:
    """Shares and counts of the first `top` tokens and, where there are more, of all others together. [n] -> [k], [k]"""
    if len(shares) <= top + 1:
        return shares, counts
    return (np.append(each[:top], each[top:].sum()) for each in (shares, counts))


def many_figure(lines: Sequence[Line], n: int, said: Mapping[str, str]) -> str:
    """Expected shares as bars with the band of the usual, and what came as dots; JSON.

    `said`: "share", "expected", "observed", "unusual", "usual", "times", "token".
    """
    names = _distinct([line.name for line in lines])
    expected = go.Bar(
        x=[100 * line.share for line in lines],
        y=names,
        orientation="h",
        name=plotly_text(said["expected"]),
        marker={"color": _GREY},
        textposition="none",
        hovertemplate="%{hovertext}<extra></extra>",
        hovertext=[_hover(line, n, said) for line in lines],
        text=[f"{line.low:,}–{line.high:,}" for line in lines],
        error_x={
            "type": "data",
            "symmetric": False,
            "color": _WHISKER,
            "thickness": 2,
            "width": 5,
            "array": [100 * (line.high / n - line.share) for line in lines],
            "arrayminus": [100 * (line.share - line.low / n) for line in lines],
        },
    )
    traces = [expected]
    for key, inside, symbol in (("observed", True, "circle"), ("unusual", False, "diamond-open")):
        some = [at for at, line in enumerate(lines) if line.inside == inside]
        if some:
            traces.append(
                go.Scatter(
                    x=[100 * lines[at].count / n for at in some],
                    y=[names[at] for at in some],
                    mode="markers",
                    name=plotly_text(said[key]),
                    text=[f"{lines[at].count:,}" for at in some],
                    marker={
                        "color": _ORANGE,
                        "size": 10 if inside else 12,
                        "symbol": symbol,
                        "line": {"width": 0 if inside else 2, "color": _ORANGE},
                    },
                    hovertext=[_hover(lines[at], n, said) for at in some],
                    hovertemplate="%{hovertext}<extra></extra>",
                )
            )
    height = 96 + _ROW * len(lines)
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": height, "narrow": height}) | {
        "xaxis": axis | {"title": {"text": plotly_text(said["share"]), "standoff": 6}, "rangemode": "tozero"},
        "yaxis": axis
        | {
            "autorange": "reversed",
            "type": "category",
            "showgrid": False,
            "ticklabelstandoff": 4,
            "tickfont": {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12},
        },
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "bargap": 0.35,
    }
    return go.Figure(traces, layout).to_json()


def _hover(line: Line, n: int, said: Mapping[str, str]) -> str:
    wanted = f"{percent(line.share)} ({n * line.share:,.1f} {said['times']})"
    came = f"{percent(line.count / n)} ({line.count:,} {said['times']})"
    rows = (
        line.name,
        f"{said['expected']}: {wanted}",
        f"{said['observed']}: {came}",
        f"{said['usual']}: {line.low:,}–{line.high:,} {said['times']}",
    )
    return "<br>".join(plotly_text(row) for row in rows)


def _distinct(names: Sequence[str]) -> list[str]:
    """Categories of an axis must differ; tokens that look alike get invisible signs behind them."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        found.append(plotly_text(name) + "\u200b" * seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return found
