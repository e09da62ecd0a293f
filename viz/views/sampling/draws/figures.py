"""A distribution as a bar that random numbers fall on, and the relative frequencies of many draws beside the
probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, ORANGE, axis, figure, row_axis
from viz.charts.lines import HOVER_TEXT, line, rows, values
from viz.labels import plotly_text, shorten, visible
from viz.numbers import decimals, percent, whole

MOST = 200  # maximum number of intervals sent individually; all others form a single one, the tail
THIN = 1 / 2000  # minimum width as a fraction of the bar; a narrower interval is smaller than a pixel
TOP = 12  # maximum number of tokens compared individually
RUG = 240  # number of bins of the rug plot below the bar
_ROW = 27  # height of a token's row in the figure, in pixels
_PALE = "rgba(128,134,150,0.45)"
_WHISKER = "#2a8fd0"  # visible on the bars in both themes
_FONT = {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12}


@dataclass(frozen=True)
class DrawCount:
    """One token, or all others combined: its probability, the observed count in n draws, and the 95% range of that
    count.
    """

    name: str  # as displayed on the page
    share: float
    count: int
    low: int  # bounds of the 95% range of the count
    high: int

    @property
    def inside(self) -> bool:
        """True if the observed count lies within its 95% range."""
        return self.low <= self.count <= self.high


def single(shares: np.ndarray) -> int:
    """Count the intervals of the bar that are wide enough to be drawn individually.

    `shares`: their widths in decreasing order, summing to 1. [n]
    """
    wide = min(max(int((shares >= THIN).sum()), 1), MOST)
    return len(shares) if len(shares) - wide == 1 else wide


def label(piece: str) -> str:
    """Format a token's string for the bar and the figure."""
    return shorten(visible(piece), 24)


def rug(u: np.ndarray) -> list[int]:
    """Count the random numbers in each of RUG equal bins from 0 to 1."""
    return np.histogram(u, RUG, (0, 1))[0].tolist()


def groups(shares: np.ndarray, counts: np.ndarray, top: int = TOP) -> tuple[np.ndarray, np.ndarray]:
    """Keep the probabilities and counts of the first `top` tokens, and combine those of all others, if any. [n] -> [k],
    [k]
    """
    if len(shares) <= top + 1:
        return shares, counts
    return tuple(np.append(each[:top], each[top:].sum()) for each in (shares, counts))


def many_figure(lines: Sequence[DrawCount], n: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the probabilities as bars, the 95% range as whiskers, and the observed relative frequencies as dots.

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
    """Format the hover text of a token: its probability, its observed frequency, and the 95% range."""
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
    """Make axis categories unique by appending zero-width spaces to repeated names."""
    seen: dict[str, int] = {}
    categories = []
    for name in names:
        categories.append(plotly_text(name) + "\u200b" * seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return categories
