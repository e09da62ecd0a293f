"""Accuracies with their intervals: a bar a variant, and lines over the number of examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, ORANGE, axis, figure, row_axis
from viz.charts.lines import guide, line, rows
from viz.labels import plotly_text
from viz.numbers import percent

ROW = 46  # pixels of a bar
_HUES = (BLUE, ORANGE)
SHARE = {"range": [0, 1.02], "tickformat": ".0%"}


@dataclass(frozen=True)
class Bar:
    """A variant's accuracy."""

    name: str
    right: int
    n: int
    low: float  # of the 95 % interval
    high: float


def accuracy_figure(bars: Sequence[Bar], chance: float | None, words: Mapping[str, str]) -> go.Figure:
    """Return a bar a variant with its 95 % interval; a dotted line where guessing would be.

    `words`: "share", "interval", "chance".
    """
    shares = [bar.right / bar.n for bar in bars]
    told = [
        "<br>".join(
            (
                plotly_text(bar.name),
                f"{plotly_text(words['share'])}: {bar.right} / {bar.n} = {percent(share)}",
                f"{plotly_text(words['interval'])}: {percent(bar.low)} – {percent(bar.high)}",
            )
        )
        for bar, share in zip(bars, shares, strict=True)
    ]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [bar.high - share for bar, share in zip(bars, shares, strict=True)],
        "arrayminus": [share - bar.low for bar, share in zip(bars, shares, strict=True)],
        "color": GRAY,
        "thickness": 2,
        "width": 6,
    }
    names = [plotly_text(bar.name) for bar in bars]
    drawn = rows(words["share"], names, shares, BLUE, hovers=told, more={"error_x": error, "width": 0.55})
    traces: list = [drawn]
    if chance:
        mark = {"x": [chance, chance], "y": [names[0], names[-1]], "mode": "lines", "hoverinfo": "skip"}
        look = {"line": {"color": ORANGE, "dash": "dot", "width": 2}, "name": plotly_text(words["chance"])}
        traces.append(go.Scatter(mark | look))
    return figure(
        traces,
        axis(words["share"], SHARE),
        row_axis(names, names),
        height=ROW * len(bars) + 110,
        more={"showlegend": bool(chance)},
    )


@dataclass(frozen=True)
class Line:
    """Accuracy against the number of examples, for one way to label them."""

    name: str
    shares: np.ndarray  # [counts, orders], NaN where there is nothing to measure
    low: Sequence[float]  # [counts] the 95 % interval of the mean over the orders, in so many questions
    high: Sequence[float]


def curve_figure(
    counts: Sequence[int], lines: Sequence[Line], chance: float | None, words: Mapping[str, str]
) -> go.Figure:
    """Return the mean accuracy against the number of examples with its interval, and a pale dot for every order of the
    examples.

    `words`: "examples", "share", "interval", "order", "chance".
    """
    traces: list = []
    for at, each in enumerate(lines):
        known = np.flatnonzero(~np.isnan(each.shares).all(1))
        x, mean = [counts[k] for k in known], each.shares[known].mean(1)
        low, high = (np.array(side)[known] for side in (each.low, each.high))
        error = {
            "type": "data",
            "symmetric": False,
            "array": list(high - mean),
            "arrayminus": list(mean - low),
            "color": _HUES[at],
            "thickness": 1.5,
            "width": 5,
        }
        spans = [f"{percent(a)} – {percent(b)}" for a, b in zip(low, high, strict=True)]
        told = f"{plotly_text(words['examples'])}: %{{x}}<br>{plotly_text(words['share'])}: %{{y:.1%}}<br>"
        told += f"{plotly_text(words['interval'])}: %{{text}}"
        style = {"error_y": error, "legendgroup": str(at)}
        traces += _dots(each, counts, known, at, words)
        traces.append(
            line(each.name, x, mean, _HUES[at], hover=told, text=spans, dash=("solid", "dash")[at], more=style)
        )
    if chance:
        traces.append(guide(words["chance"], [counts[0], counts[-1]], [chance, chance]))
    x_axis = axis(words["examples"], {"tickvals": list(counts)})
    return figure(traces, x_axis, axis(words["share"], SHARE), height=360)


def _dots(each: Line, counts: Sequence[int], known: np.ndarray, at: int, words: Mapping[str, str]) -> list[go.Scatter]:
    """Return a small dot for every order."""
    x = [counts[k] for k in known for _ in range(each.shares.shape[1])]
    y = [float(share) for k in known for share in each.shares[k]]
    name = plotly_text(f"{each.name}, {words['order']}")
    dots = {
        "x": x,
        "y": y,
        "mode": "markers",
        "marker": {"color": _HUES[at], "size": 5, "symbol": "circle-open"},
        "name": name,
        "legendgroup": str(at),
        "showlegend": False,
        "hovertemplate": f"{name}<br>%{{y:.1%}}<extra></extra>",
    }
    return [go.Scatter(dots)]
