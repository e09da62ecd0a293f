"""Figures of accuracies with confidence intervals: one bar per variant, and lines by number of examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, ORANGE, axis, figure, row_axis
from viz.charts.lines import guide, line, rows
from viz.labels import plotly_text
from viz.numbers import percent

ROW = 46  # height of a bar's row in pixels
_HUES = (BLUE, ORANGE)
SHARE = {"range": [0, 1.02], "tickformat": ".0%"}


@dataclass(frozen=True)
class AccuracyBar:
    """The accuracy of one variant: its number of right answers among n questions, and the 95% interval."""

    name: str
    right: int
    n: int
    low: float  # bounds of the 95% interval
    high: float


def accuracy_figure(bars: Sequence[AccuracyBar], chance: float | None, words: Mapping[str, str]) -> go.Figure:
    """Draw one bar per variant with its 95% interval, and a dotted line at chance level.

    `words`: "share", "interval", "chance".
    """
    shares = [bar.right / bar.n for bar in bars]
    hovers = [
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
    trace = rows(words["share"], names, shares, BLUE, hovers=hovers, more={"error_x": error, "width": 0.55})
    traces: list = [trace]
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
class AccuracyLine:
    """The accuracy by number of examples, with correct or with shuffled labels."""

    name: str
    shares: np.ndarray  # [counts, orders], NaN if it cannot be measured
    low: Sequence[float]  # [counts] bounds of the 95% interval of the mean over the orders, given n questions
    high: Sequence[float]


def curve_figure(
    counts: Sequence[int], lines: Sequence[AccuracyLine], chance: float | None, words: Mapping[str, str]
) -> go.Figure:
    """Draw the mean accuracy by number of examples with its interval, and a small dot for each order of the examples.

    `words`: "examples", "share", "interval", "order", "chance".
    """
    traces: list = []
    for index, each in enumerate(lines):
        measured = np.flatnonzero(~np.isnan(each.shares).all(1))
        x, mean = [counts[k] for k in measured], each.shares[measured].mean(1)
        low, high = (np.array(side)[measured] for side in (each.low, each.high))
        error = {
            "type": "data",
            "symmetric": False,
            "array": list(high - mean),
            "arrayminus": list(mean - low),
            "color": _HUES[index],
            "thickness": 1.5,
            "width": 5,
        }
        spans = [f"{percent(a)} – {percent(b)}" for a, b in zip(low, high, strict=True)]
        template = f"{plotly_text(words['examples'])}: %{{x}}<br>{plotly_text(words['share'])}: %{{y:.1%}}<br>"
        template += f"{plotly_text(words['interval'])}: %{{text}}"
        style = {"error_y": error, "legendgroup": str(index)}
        traces += _dots(each, counts, measured, index, words)
        traces.append(
            line(
                each.name, x, mean, _HUES[index], hover=template, text=spans, dash=("solid", "dash")[index], more=style
            )
        )
    if chance:
        traces.append(guide(words["chance"], [counts[0], counts[-1]], [chance, chance]))
    x_axis = axis(words["examples"], {"tickvals": list(counts)})
    return figure(traces, x_axis, axis(words["share"], SHARE), height=360)


def _dots(
    curve: AccuracyLine, counts: Sequence[int], measured: np.ndarray, index: int, words: Mapping[str, str]
) -> list[go.Scatter]:
    """Draw a small dot for each order of the examples."""
    x = [counts[k] for k in measured for _ in range(curve.shares.shape[1])]
    y = [float(share) for k in measured for share in curve.shares[k]]
    name = plotly_text(f"{curve.name}, {words['order']}")
    dots = {
        "x": x,
        "y": y,
        "mode": "markers",
        "marker": {"color": _HUES[index], "size": 5, "symbol": "circle-open"},
        "name": name,
        "legendgroup": str(index),
        "showlegend": False,
        "hovertemplate": f"{name}<br>%{{y:.1%}}<extra></extra>",
    }
    return [go.Scatter(dots)]
