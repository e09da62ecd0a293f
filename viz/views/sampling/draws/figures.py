"""A distribution as a bar that random numbers fall on, and many draws against what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, ORANGE, axis, figure, row_axis
from viz.charts.lines import HOVER_TEXT, line, rows, values
from viz.labels import plotly_text, shorten, visible
from viz.numbers import decimals, percent, whole

MOST = 200  # parts of the bar that are sent; what is left is one part
THIN = 1 / 2000  # of the bar: a part below this is less than a pixel wide
TOP = 12  # tokens compared one by one
RUG = 240  # bins of the random numbers below the bar
_ROW = 27  # pixels of a token in the figure
_PALE = "rgba(128,134,150,0.45)"
_WHISKER = "#2a8fd0"  # seen on the bars of a light and of a dark page
_FONT = {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12}


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
    """Return a token on the bar and in the figure."""
    return shorten(visible(piece), 24)


def rug(u: np.ndarray) -> list[int]:
    """Return how many of the random numbers fall into each of RUG equal parts of the bar."""
    return np.histogram(u, RUG, (0, 1))[0].tolist()


def groups(shares: np.ndarray, counts: np.ndarray, top: int = TOP) -> tuple[np.ndarray, np.ndarray]:
    """Shares and counts of the first `top` tokens and, where there are more, of all others together. [n] -> [k], [k]"""
    if len(shares) <= top + 1:
        return shares, counts
    return tuple(np.append(each[:top], each[top:].sum()) for each in (shares, counts))


def many_figure(lines: Sequence[Line], n: int, words: Mapping[str, str]) -> go.Figure:
    """Expected shares as bars with the band of the usual, and what came as dots.

    `words`: "share", "expected", "observed", "unusual", "usual", "times".
    """
    names, hovers = _distinct([each.name for each in lines]), [_hover(each, n, words) for each in lines]
    whiskers = {
        "type": "data",
        "symmetric": False,
        "color": _WHISKER,
        "thickness": 2,
        "width": 5,
        "array": values([100 * (each.high / n - each.share) for each in lines]),
        "arrayminus": values([100 * (each.share - each.low / n) for each in lines]),
    }
    bands = {"text": [f"{whole(each.low)}–{whole(each.high)}" for each in lines], "textposition": "none"}
    shares = [100 * each.share for each in lines]
    traces: list[go.Bar | go.Scatter] = [
        rows(words["expected"], names, shares, _PALE, hovers=hovers, more={"error_x": whiskers, **bands})
    ]
    for key, inside, symbol in (("observed", True, "circle"), ("unusual", False, "diamond-open")):
        at = [i for i, each in enumerate(lines) if each.inside == inside]
        if not at:
            continue
        rim = {"width": 0 if inside else 2, "color": ORANGE}
        more = {
            "mode": "markers",
            "y": [names[i] for i in at],
            "marker": {"color": ORANGE, "size": 10 if inside else 12, "symbol": symbol, "line": rim},
            "hovertext": [hovers[i] for i in at],
            "hovertemplate": HOVER_TEXT,
        }
        came, counts = values([100 * lines[i].count / n for i in at]), [whole(lines[i].count) for i in at]
        traces.append(line(words[key], came, [0] * len(at), ORANGE, hover="", text=counts, more=more))
    across = axis(words["share"], {"rangemode": "tozero"})
    down = row_axis(names, [plotly_text(each.name) for each in lines], {"ticklabelstandoff": 4, "tickfont": _FONT})
    more = {"bargap": 0.35, "legend": LEGEND | {"y": 1.0}}
    return figure(traces, across, down, height=96 + _ROW * len(lines), more=more)


def _hover(each: Line, n: int, words: Mapping[str, str]) -> str:
    """Return the hover text of a line."""
    expected = f"{percent(each.share)} ({decimals(n * each.share, 1)} {words['times']})"
    came = f"{percent(each.count / n)} ({whole(each.count)} {words['times']})"
    texts = (
        each.name,
        f"{words['expected']}: {expected}",
        f"{words['observed']}: {came}",
        f"{words['usual']}: {whole(each.low)}–{whole(each.high)} {words['times']}",
    )
    return "<br>".join(map(plotly_text, texts))


def _distinct(names: Sequence[str]) -> list[str]:
    """Categories of an axis must differ; tokens that look alike get invisible signs behind them."""
    seen: dict[str, int] = {}
    categories = []
    for name in names:
        categories.append(plotly_text(name) + "\u200b" * seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return categories
