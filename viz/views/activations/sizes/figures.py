"""Statistics of the residual stream as curves: across the layers, and across the tokens for one row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LOG, axis, figure
from viz.charts.lines import band, line, stacked, token_data
from viz.labels import axis_name, plotly_text
from viz.theme import HUES
from viz.views.activations.figures import BELOW

RANGE = (10.0, 90.0)  # percentiles over the tokens at the edges of the gray band
_MOST_MARKS = 150  # maximum number of tokens drawn with markers; more are drawn as a line only, which is faster
_GRAY = HUES[7]
_HOVER = "%{text}<br>%{y:.6g}"


@dataclass(frozen=True, eq=False)
class LayerCurve:
    """Rows of a statistic that are drawn as one curve across the layers."""

    title: str  # "" for a single curve
    rows: Sequence[int]
    at: Sequence[float]  # x coordinate of each row on the layer axis
    names: Sequence[str]  # names of the rows


@dataclass(frozen=True)
class Series:
    """A highlighted token: its position, its name (escaped for Plotly) and its color."""

    token: int
    name: str
    hue: str


def series_of(tokens: Sequence[int], pieces: Sequence[str]) -> list[Series]:
    """Assign a hue to each token, up to the number of hues; further tokens are dropped."""
    return [Series(t, axis_name(t, pieces[t]), hue) for t, hue in zip(tokens, HUES, strict=False)]


def profile_figure(
    values: np.ndarray, curves: Sequence[LayerCurve], series: Sequence[Series], words: Mapping[str, str], log: bool
) -> go.Figure:
    """Draw a statistic across the layers: the tokens of `series`, and the median and range of all tokens.

    values [R, T]. `words`: "value", "layers" (of the axis), "median", "p10", "p90".
    """
    panels, y = {}, {}
    scale = LOG | {"nticks": 6 // len(curves)} if log else {}
    for n, curve in enumerate(curves):
        panels[str(n)] = _profile(values[list(curve.rows)], curve, series, words, n == 0)
        y[str(n)] = axis(f"{curve.title}: {words['value']}" if curve.title else words["value"], scale)
    x = axis(words["layers"], {"rangemode": "tozero"})
    return stacked(panels, x, y, height=430 if len(curves) == 1 else 560, legend=BELOW)


def _profile(
    values: np.ndarray, curve: LayerCurve, series: Sequence[Series], words: Mapping[str, str], first: bool
) -> list[go.Scatter]:
    """Draw the range and median of all tokens, and one line per token in `series`. values [rows of the curve, T]"""
    low, middle, high = _spread(values).T
    names, x = [plotly_text(name) for name in curve.names], list(curve.at)
    median = words["median"]
    style = {"legendgroup": plotly_text(median), "showlegend": first, "mode": "lines"}
    traces = band(median, x, low, high, _GRAY, edges=(words["p10"], words["p90"]), hover=_HOVER)
    traces = [trace.update(text=names) for trace in traces]
    traces.append(line(median, x, middle, _GRAY, hover=_HOVER, text=names, dash="dot", more=style))
    for each in series:
        look = {"legendgroup": each.name, "showlegend": first, "customdata": [{"tokens": [each.token]}] * len(x)}
        look |= {"name": each.name, "hovertemplate": f"{each.name}<br>{_HOVER}<extra></extra>"}
        traces.append(line("", x, values[:, each.token], each.hue, hover="", text=names, more=look))
    return traces


def _spread(values: np.ndarray) -> np.ndarray:
    """Compute the 10%, 50% and 90% quantiles of each row's finite values, NaN if it has none. [R, T] -> [R, 3]"""
    parts = (RANGE[0], 50.0, RANGE[1])
    finite = [row[np.isfinite(row)] for row in values]
    return np.array([np.percentile(row, parts) if row.size else [np.nan] * 3 for row in finite])


def row_figure(
    row: np.ndarray, pieces: Sequence[str], series: Sequence[Series], words: Mapping[str, str], log: bool
) -> go.Figure:
    """Draw one row's values by token, with large colored markers for `series`; a click selects a token. row [T]

    `words`: "value", "position" (of the axis), "every" (token).
    """
    T = len(row)
    names = [axis_name(at, piece) for at, piece in enumerate(pieces)]
    look = {"mode": "lines" if T > _MOST_MARKS else "lines+markers", "customdata": token_data(T)}
    every = line(words["every"], range(T), row, _GRAY, hover=_HOVER, text=names, width=1, more=look)
    looked_at = [
        go.Scatter(
            x=[each.token],
            y=[row[each.token]],
            text=[each.name],
            name=each.name,
            mode="markers",
            marker={"size": 10, "color": each.hue},
            hovertemplate=f"{_HOVER}<extra></extra>",
            customdata=[{"tokens": [each.token]}],
        )
        for each in series
    ]
    x = axis(words["position"], {"showgrid": False, "range": [-0.5, T - 0.5]})
    y = axis(words["value"], LOG | {"nticks": 6} if log else {})
    return figure([every, *looked_at], x, y, height=280, more={"showlegend": False})
