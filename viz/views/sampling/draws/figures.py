"""A distribution as a bar that random numbers fall on, and the shares of many draws beside the expected ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, ORANGE, axis, figure, row_axis
from viz.charts.lines import HOVER_TEXT, line, rows, values
from viz.labels import plotly_text, shorten, visible
from viz.numbers import decimals, percent, whole

MOST = 200  # intervals sent individually; all others are one interval, the tail
THIN = 1 / 2000  # share of the bar; a smaller interval is narrower than a pixel
TOP = 12  # tokens compared one by one
RUG = 240  # bins of the random numbers below the bar
_ROW = 27  # pixels per token in the figure
_PALE = "rgba(128,134,150,0.45)"
_WHISKER = "#2a8fd0"  # visible on the bars in the light and in the dark theme
_FONT = {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12}


@dataclass(frozen=True)
class DrawCount:
    """One token, or all others together: expected share, observed count, and its usual range in n draws."""

    name: str  # as the page shows it
    share: float
    count: int
    low: int  # of the usual range
    high: int

    @property
    def inside(self) -> bool:
        """True if the observed count lies in the usual range."""
        return self.low <= self.count <= self.high


def single(shares: np.ndarray) -> int:
    """Count the intervals of the bar to draw individually, those wide enough to be visible. shares: descending [n], sum
    1
    """
    wide = min(max(int((shares >= THIN).sum()), 1), MOST)
    return len(shares) if len(shares) - wide == 1 else wide


def label(piece: str) -> str:
    """Format a token for the bar and the figure."""
    return shorten(visible(piece), 24)


def rug(u: np.ndarray) -> list[int]:
    """Count the random numbers in each of RUG equal bins from 0 to 1."""
    return np.histogram(u, RUG, (0, 1))[0].tolist()


def groups(shares: np.ndarray, counts: np.ndarray, top: int = TOP) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares and counts of the first `top` tokens and, if more remain, of all others together. [n] -> [k],
    [k]
    """
    if len(shares) <= top + 1:
        return shares, counts
    return tuple(np.append(each[:top], each[top:].sum()) for each in (shares, counts))


def many_figure(lines: Sequence[DrawCount], n: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the expected shares as bars with the usual range as whiskers, and the observed shares as dots.

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
        indices = [i for i, each in enumerate(lines) if each.inside == inside]
        if not indices:
            continue
        rim = {"width": 0 if inside else 2, "color": ORANGE}
        more = {
            "mode": "markers",
            "y": [names[i] for i in indices],
            "marker": {"color": ORANGE, "size": 10 if inside else 12, "symbol": symbol, "line": rim},
            "hovertext": [hovers[i] for i in indices],
            "hovertemplate": HOVER_TEXT,
        }
        observed, counts = values([100 * lines[i].count / n for i in indices]), [whole(lines[i].count) for i in indices]
        traces.append(line(words[key], observed, [0] * len(indices), ORANGE, hover="", text=counts, more=more))
    across = axis(words["share"], {"rangemode": "tozero"})
    down = row_axis(names, [plotly_text(each.name) for each in lines], {"ticklabelstandoff": 4, "tickfont": _FONT})
    more = {"bargap": 0.35, "legend": LEGEND | {"y": 1.0}}
    return figure(traces, across, down, height=96 + _ROW * len(lines), more=more)


def _hover(entry: DrawCount, n: int, words: Mapping[str, str]) -> str:
    """Format the hover text of a token: expected and observed share, and the usual range."""
    expected = f"{percent(entry.share)} ({decimals(n * entry.share, 1)} {words['times']})"
    observed = f"{percent(entry.count / n)} ({whole(entry.count)} {words['times']})"
    texts = (
        entry.name,
        f"{words['expected']}: {expected}",
        f"{words['observed']}: {observed}",
        f"{words['usual']}: {whole(entry.low)}–{whole(entry.high)} {words['times']}",
    )
    return "<br>".join(map(plotly_text, texts))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return unique axis categories: repeated names get zero-width spaces at their end."""
    seen: dict[str, int] = {}
    categories = []
    for name in names:
        categories.append(plotly_text(name) + "\u200b" * seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return categories
