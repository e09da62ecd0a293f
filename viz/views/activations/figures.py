"""Pictures of the residual stream's sizes: a number a norm and token, its profiles, and the outlying dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.shades import coloured
from viz.labels import axis_name, plotly_text, tick_text
from viz.theme import HUES, frame_layout

MAX_TICKS = 24  # labels an axis
MAX_MARKS = 150  # tokens with a mark each; beyond it a line, which is drawn at once
BAND = (10.0, 90.0)  # percent of the tokens between which the grey band lies
_GREY, _BAND_COLOUR, _LIMIT = "#808896", "rgba(128,136,150,0.25)", "#c2410c"
_ROW, _LEAST, _MOST, _FIXED = 9, 300, 660, 110  # pixels: a row of a grid, least and most of a figure, its axes


@dataclass(frozen=True, eq=False)
class Line:
    """The names along an axis, and the labels of some of them."""

    title: str
    names: Sequence[str]  # unique, escaped for Plotly
    ticks: Sequence[int]  # indices that get a label
    texts: Sequence[str]  # their labels, escaped for Plotly


@dataclass(frozen=True, eq=False)
class Grid:
    """A number a row and column."""

    values: np.ndarray  # [R, C], NaN where there is none
    value: str  # what the number is
    rows: Line
    columns: Line
    shade: str  # of `shade_of`
    told: list[list[str]] | None = None  # what a cell says besides, [R][C], escaped for Plotly
    marked: Sequence[tuple[int, int]] = ()  # cells with a dot


def token_line(title: str, pieces: Sequence[str]) -> Line:
    """A prompt's tokens along an axis."""
    ticks = range(0, len(pieces), -(-len(pieces) // MAX_TICKS))
    names = [axis_name(at, piece) for at, piece in enumerate(pieces)]
    return Line(title, names, list(ticks), [tick_text(pieces[at]) for at in ticks])


def layer_line(title: str, names: Sequence[str], layers: Sequence[int]) -> Line:
    """Rows along an axis, the first one of a layer labelled with its number. layers[r] is the layer of row r."""
    first = [r for r, layer in enumerate(layers) if r == 0 or layers[r - 1] != layer]
    ticks = first[:: -(-len(first) // MAX_TICKS)]
    return Line(title, [plotly_text(name) for name in names], ticks, [str(layers[r]) for r in ticks])


# --- from a number to a colour ---


def said(value: float) -> str:
    """A number in a sentence: five digits or more, without an exponent up to a billion."""
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e9 else f"{value:,.5g}" if abs(value) < 1e5 else f"{value:.4e}"


def grid_figure(grid: Grid) -> go.Figure:
    """A heat map, the first row at the bottom; exact numbers on hover, whatever the colours.

    `layout.meta.window` tells the page that a click is a cell; its rows and columns are counted from -R and, for
    columns that are not tokens, from below that, so that no token's number is one of theirs.
    """
    R, C = grid.values.shape
    z, bar, scales = coloured(grid.values, grid.shade)
    exact = grid.values.astype(np.float32)
    number = "%{customdata:.6g}"
    heat = go.Heatmap(
        z=z.astype(np.float32),
        customdata=exact,
        x=grid.columns.names,
        y=grid.rows.names,
        coloraxis="coloraxis",
        meta={"exact": True},
        xgap=int(C <= 40),
        ygap=int(R <= 40),
        text=grid.told,
        hovertemplate=f"%{{y}}<br>{plotly_text(grid.columns.title)}: %{{x}}<br>{plotly_text(grid.value)}: {number}"
        + ("<br>%{text}" if grid.told else "")
        + "<extra></extra>",
    )
    dots = go.Scatter(
        x=[grid.columns.names[c] for _, c in grid.marked],
        y=[grid.rows.names[r] for r, _ in grid.marked],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        marker={"size": 6, "color": "#ffffff", "line": {"color": "#000000", "width": 1.2}},
    )
    height = min(max(_FIXED + _ROW * R, _LEAST), _MOST)
    across = [-R - C, -R] if grid.told else [0, C]
    meta = {"block": 1, "window": [-R, 0, *across], "whole": True, "scales": scales, "height": height, "narrow": height}
    layout = frame_layout(meta) | {
        "coloraxis": {"colorscale": scales["light"], **bar},
        "xaxis": _labels(grid.columns) | {"tickangle": -60, "range": [-0.5, C - 0.5]},  # dots would widen it
        "yaxis": _labels(grid.rows) | {"range": [-0.5, R - 0.5]},
    }
    layout["coloraxis"]["colorbar"]["title"] = {"text": plotly_text(grid.value), "side": "right"}
    return go.Figure([heat, dots] if grid.marked else [heat], layout)


def _labels(line: Line) -> dict:
    """A category axis with a label on some of its names."""
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": [line.names[at] for at in line.ticks],
        "ticktext": list(line.texts),
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "title": {"text": plotly_text(line.title), "standoff": 8},
    }


@dataclass(frozen=True)
class Series:
    """One of the tokens that are picked: its place in the prompt, its name, escaped for Plotly, and its colour."""

    token: int
    name: str
    hue: str


def series_of(tokens: Sequence[int], pieces: Sequence[str]) -> list[Series]:
    """Tokens with a hue each; the first eight of them."""
    return [Series(t, axis_name(t, pieces[t]), hue) for t, hue in zip(tokens, HUES, strict=False)]


@dataclass(frozen=True)
class ProfileWords:
    """The words on a profile, in the reader's language."""

    value: str
    across: str  # of the axis of layers
    median: str
    low: str
    high: str


@dataclass(frozen=True, eq=False)
class Curve:
    """Rows of a profile that are one curve: where each stands along the layers, and its name."""

    title: str  # "" where there is one curve
    rows: Sequence[int]
    at: Sequence[float]
    names: Sequence[str]


def profile_figure(
    values: np.ndarray, curves: Sequence[Curve], series: Sequence[Series], words: ProfileWords, log: bool
) -> go.Figure:
    """A number along the layers: of some tokens, over the median and the range of all. values [R, T]"""
    traces, gap = [], 0.12
    height = (1 - gap * (len(curves) - 1)) / len(curves)
    tall = 430 if len(curves) == 1 else 560
    layout = frame_layout({"height": tall, "narrow": tall}) | {"showlegend": True, "legend": _LEGEND, "annotations": []}
    for n, curve in enumerate(curves):
        tail, top = str(n + 1) if n else "", 1 - n * (height + gap)
        traces += _profile_traces(values[list(curve.rows)], curve, series, words, tail)
        last = n == len(curves) - 1
        domain = [max(0.0, top - height), top]
        layout[f"yaxis{tail}"] = _number_axis(words.value, log, 6 // len(curves)) | {"domain": domain}
        layout[f"xaxis{tail}"] = (
            _X_LAYERS
            | {"anchor": f"y{tail}", "showticklabels": last}
            | ({"title": {"text": plotly_text(words.across), "standoff": 8}} if last else {})
            | ({"matches": "x"} if n else {})
        )
        if curve.title:
            layout["annotations"].append(
                {
                    "text": plotly_text(curve.title),
                    "x": 0,
                    "y": top,
                    "xref": "paper",
                    "yref": "paper",
                    "xanchor": "left",
                    "yanchor": "bottom",
                    "showarrow": False,
                    "font": {"size": 12},
                }
            )
    layout["margin"] = {"l": 8, "r": 8, "t": 24 if curves[0].title else 8, "b": 8}
    return go.Figure(traces, layout)


_LEGEND = {"orientation": "h", "x": 0, "y": -0.18, "yanchor": "top", "font": {"size": 11}}
_X_LAYERS = {"zeroline": False, "automargin": True, "rangemode": "tozero"}


def _number_axis(title: str, log: bool, labels: int = 6) -> dict:
    axis = {"title": {"text": plotly_text(title), "standoff": 6}, "automargin": True, "zeroline": False}
    return axis | ({"type": "log", "tickformat": ",~g", "nticks": labels} if log else {})


def _profile_traces(
    values: np.ndarray, curve: Curve, series: Sequence[Series], words: ProfileWords, tail: str
) -> list[go.Scatter]:
    """The band of all tokens, their median, and the tokens that are picked. values [rows of the curve, T]"""
    low, middle, high = _spread(values).T
    common = {
        "x": list(curve.at),
        "text": [plotly_text(name) for name in curve.names],
        "xaxis": f"x{tail}",
        "yaxis": f"y{tail}",
        "hovertemplate": "%{text}<br>%{y:.6g}",
        "showlegend": not tail,
    }

    def line(y: np.ndarray, name: str, look: dict) -> go.Scatter:
        return go.Scatter({"y": y, "name": name, "legendgroup": name} | common | look)

    hidden = {"line": {"width": 0}, "mode": "lines", "showlegend": False}
    traces = [
        line(low, plotly_text(words.low), hidden),
        line(high, plotly_text(words.high), hidden | {"fill": "tonexty", "fillcolor": _BAND_COLOUR}),
        line(middle, plotly_text(words.median), {"mode": "lines", "line": {"color": _GREY, "width": 2, "dash": "dot"}}),
    ]
    for each in series:
        look = {"mode": "lines+markers", "line": {"color": each.hue, "width": 2}, "marker": {"size": 4}}
        look["customdata"] = [{"tokens": [each.token]}] * len(values)
        traces.append(line(values[:, each.token], each.name, look))
    return traces


def _spread(values: np.ndarray) -> np.ndarray:
    """The ends of the band and the median of each row's finite numbers, NaN where there are none. [R, T] -> [R, 3]"""
    parts = (BAND[0], 50.0, BAND[1])
    found = [row[np.isfinite(row)] for row in values]
    return np.array([np.percentile(row, parts) if row.size else [np.nan] * 3 for row in found])


@dataclass(frozen=True)
class RowWords:
    """The words on a row over the tokens, in the reader's language."""

    value: str
    across: str
    every: str  # the name of all tokens' marks


def row_figure(
    row: np.ndarray, pieces: Sequence[str], series: Sequence[Series], words: RowWords, log: bool
) -> go.Figure:
    """A number at every token of one row, those that are picked larger and in their hue; a click picks. row [T]"""
    names = [axis_name(at, piece) for at, piece in enumerate(pieces)]
    marks = "lines" if len(row) > MAX_MARKS else "lines+markers"
    every = go.Scatter(
        x=list(range(len(row))),
        y=row,
        text=names,
        name=plotly_text(words.every),
        mode=marks,
        line={"color": _GREY, "width": 1},
        marker={"size": 5, "color": _GREY},
        customdata=[{"tokens": [at]} for at in range(len(row))],
        hovertemplate="%{text}<br>%{y:.6g}<extra></extra>",
    )
    picked = [
        go.Scatter(
            x=[each.token],
            y=[row[each.token]],
            text=[each.name],
            name=each.name,
            mode="markers",
            marker={"size": 10, "color": each.hue},
            hovertemplate="%{text}<br>%{y:.6g}<extra></extra>",
            customdata=[{"tokens": [each.token]}],
        )
        for each in series
    ]
    layout = frame_layout({"height": 280, "narrow": 280}) | {
        "showlegend": False,
        "yaxis": _number_axis(words.value, log),
        "xaxis": {
            "title": {"text": plotly_text(words.across), "standoff": 8},
            "automargin": True,
            "zeroline": False,
            "showgrid": False,
            "range": [-0.5, len(row) - 0.5],
        },
    }
    return go.Figure([every, *picked], layout)


@dataclass(frozen=True)
class DimensionWords:
    """The words on the dimensions of one token, in the reader's language."""

    dimension: str
    size: str
    others: str
    limit: str


def dimension_figure(
    token: np.ndarray, others: np.ndarray | None, name: str, reach: float, words: DimensionWords
) -> go.Figure:
    """|x| of every dimension at one token, the median of the other tokens, and from where on it is outlying. [D] each

    The axis is logarithmic: a 0 has no place on it and leaves a gap.
    """
    x = list(range(len(token)))
    template = f"{plotly_text(words.dimension)} %{{x}}<br>%{{y:.6g}}"
    traces = [
        go.Scatter(
            x=x, y=_drawn(token), name=name, mode="lines", line={"color": HUES[0], "width": 1.2}, hovertemplate=template
        )
    ]
    if others is not None:
        traces.append(
            go.Scatter(
                x=x,
                y=_drawn(others),
                name=plotly_text(words.others),
                mode="lines",
                line={"color": HUES[1], "width": 1.2},
                hovertemplate=template,
            )
        )
    traces.append(
        go.Scatter(
            x=[0, max(len(token) - 1, 1)],
            y=[reach, reach],
            name=plotly_text(words.limit),
            mode="lines",
            hoverinfo="skip",
            line={"color": _LIMIT, "dash": "dash", "width": 1.5},
        )
    )
    layout = frame_layout({"height": 380, "narrow": 380}) | {
        "showlegend": True,
        "legend": _LEGEND,
        "yaxis": _number_axis(words.size, True),
        "xaxis": {
            "title": {"text": plotly_text(words.dimension), "standoff": 8},
            "automargin": True,
            "zeroline": False,
            "showgrid": False,
        },
    }
    return go.Figure(traces, layout)


def _drawn(size: np.ndarray) -> np.ndarray:
    """Sizes for a logarithmic axis."""
    return np.where(size > 0, size.astype(np.float64), np.nan)


def median_of_others(sizes: np.ndarray, token: int) -> np.ndarray | None:
    """The median over the other tokens, None where there are none. sizes [T, D] -> [D]"""
    return np.median(np.delete(sizes, token, 0), 0) if len(sizes) > 1 else None


def extreme(values: np.ndarray, smallest: bool) -> tuple[int, int]:
    """Row and column of the number with the largest size, or of the smallest number; the first of equals. [R, T]"""
    finite = np.isfinite(values)
    if not finite.any():
        return 0, 0
    found = np.where(finite, values, np.inf).argmin() if smallest else np.where(finite, np.abs(values), -1).argmax()
    return divmod(int(found), values.shape[1])
