"""Figures of rotated pairs of a query and a key: contributions to the score, and the score by distance and shift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, GREEN, ORANGE, RED, ZERO, axis, figure, powers
from viz.charts.lines import bars, line
from viz.labels import plotly_text
from viz.numbers import whole

QUERY, KEY, SUM = BLUE, ORANGE, GREEN
HEIGHT, NARROW = 400, 380
_PALE = "rgba(128,134,150,0.35)"


@dataclass(frozen=True, eq=False)
class DistanceCurve:
    """The score by distance, for all pairs and for the slow pairs alone."""

    score: np.ndarray  # [N], at distances 0 .. N - 1
    slow: np.ndarray  # [N], one entry per shift
    distance: int  # actual distance from the key to the query


@dataclass(frozen=True, eq=False)
class Shifted:
    """The change of a score when both positions shift, and the bound on it, in one number format."""

    name: str
    bound_name: str
    errors: np.ndarray  # [N], one entry per shift
    bound: np.ndarray  # [N], one entry per shift


def bars_figure(before: np.ndarray, after: np.ndarray, names: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the contribution of each pair to the score before and after rotation, and the running sum.

    `before`, `after` and `names` have one entry per bar. Keys of `words`: `pair_axis`, `adds`, `before`, `after`,
    `sum`,
    `running`.
    """
    n, labels = len(names), [plotly_text(name) for name in names]
    x, total = list(range(n)), float(after.sum())
    shown = ("before", "after", "running", "sum")
    hovers = [f"%{{text}}<br>{plotly_text(words[key])}: %{{y:+.4f}}<extra></extra>" for key in shown]
    pale = {"width": 0.86, "marker": {"color": _PALE, "line": {"color": GRAY, "width": 1}}}
    steps = {"mode": "lines", "line": {"color": SUM, "width": 1.8, "shape": "hv"}}
    dot = {"mode": "markers", "marker": {"color": SUM, "size": 10}, "cliponaxis": False}
    traces = [
        bars(words["before"], x, before, GRAY, hover="", text=labels, more=pale),
        bars(words["after"], x, after, QUERY, hover="", text=labels, more={"width": 0.5}),
        line(
            words["running"],
            [*x, n],
            [*np.cumsum(after), total],
            SUM,
            hover="",
            text=[*labels, plotly_text(words["sum"])],
            more=steps,
        ),
        line(words["sum"], [n], [total], SUM, hover="", text=[plotly_text(words["sum"])], more=dot),
    ]
    for hover, trace in zip(hovers, traces, strict=True):
        trace.update(hovertemplate=hover)
    x_axis = axis(words["pair_axis"], {"range": [-0.8, n + 0.6], "nticks": 12, "tickformat": "d"})
    return figure(traces, x_axis, axis(words["adds"], ZERO), height=HEIGHT, narrow=NARROW, more={"barmode": "overlay"})


def distance_figure(curve: DistanceCurve, words: Mapping[str, str], slow_name: str) -> go.Figure:
    """Draw the score by distance when only the key moves. Keys of `words`: `distance`, `score`, `all`, `here`."""
    x, hover = list(range(len(curve.score))), "d = %{x:,}: %{y:+.4f}"
    mode, score = {"mode": "lines"}, float(curve.score[curve.distance])
    dot = {"mode": "markers", "cliponaxis": False, "marker": {"size": 11, "color": KEY}}
    traces = [
        line(words["all"], x, curve.score, QUERY, hover=hover, width=1.6, more=mode),
        line(slow_name, x, curve.slow, RED, hover=hover, width=2.4, more=mode),
        line(words["here"], [curve.distance], [score], KEY, hover=hover, more=dot),
    ]
    x_axis = axis(words["distance"], {"tickformat": ",", "range": [-0.01 * len(x), 1.01 * len(x)]})
    return figure(traces, x_axis, axis(words["score"], ZERO), height=HEIGHT, narrow=NARROW)


def shift_figure(by: Sequence[int], shifted: Sequence[Shifted], context: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the change of the score as a function of the shift on two logarithmic axes.

    Keys of `words`: `shift`, `error`, `context`.
    """
    x, traces, hover = np.array(by), [], "s = %{x:,}: %{y:.2e}"
    for each, color in zip(shifted, (ORANGE, BLUE), strict=True):
        moved = each.errors > 0  # log 0 is undefined
        dots = {"mode": "markers", "marker": {"size": 4, "color": color, "opacity": 0.75}}
        traces += [
            line(each.bound_name, x, each.bound, color, hover=hover, dash="dash", width=1.5, more={"mode": "lines"}),
            line(each.name, x[moved], each.errors[moved], color, hover=hover, more=dots),
        ]
    low = min(float(each.bound.min()) for each in shifted) / 1e3
    high = max(float(each.bound.max()) for each in shifted) * 3
    name = words["context"].format(n=whole(context))
    look = {"mode": "lines", "hovertemplate": f"{plotly_text(name)}<extra></extra>"}
    traces.append(line(name, [context] * 2, [low, high], GRAY, hover="", dash="dot", width=1.2, more=look))
    x_axis = axis(words["shift"], {"type": "log", "tickformat": ",", "dtick": 1})
    least = min(value for trace in traces for value in trace.y if value is not None)
    y = axis(words["error"], powers(least, high))
    return figure(traces, x_axis, y, height=440, narrow=420)
