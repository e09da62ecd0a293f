"""Figures of a prompt set: the map of mean effects with its significant cells, and one cell's examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, ZERO, axis, count_axis, figure, layer_axis, ticks, token_axis
from viz.charts.lines import guide
from viz.charts.lines import values as values_of
from viz.labels import plotly_text, tick_text
from viz.numbers import plain
from viz.theme import HUES, frame, scales

_HEIGHT = 130, 26, 300, 620  # heights in pixels: axes, one layer, minimum, maximum
_SPREAD = 0.26  # the points of a row are spread over this distance above and below it
_MARK = "#111827"
_PROFILE = 360  # height of a profile in pixels
_FLAT = 6  # names of at most this many columns are written horizontally


class Interval(Protocol):
    """Means with their intervals, [C] each: the members of model.sets.statistics.Statistics that are used here."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Row:
    """The examples of a cell or of its control, with their mean."""

    name: str
    values: np.ndarray  # [N]
    mean: float
    low: float
    high: float


def map_figure(
    means: np.ndarray, marked: np.ndarray, hovers: Sequence[str], names: Sequence[str] | None, words: Mapping[str, str]
) -> go.Figure:
    """Draw a map of mean effects, layers down, with a dot in the marked cells. means, marked [L, C]

    `names` are those of the columns, such as tokens; None for heads, which are numbered. `hovers` has L C sentences. A
    click on a cell picks it. Keys of `words`: `layer`, `column`, `value`, `marked`.
    """
    L, C = means.shape
    top = float(np.abs(means).max(initial=0)) or 1.0
    cells = [[{"cell": [layer, at], "said": hovers[layer * C + at]} for at in range(C)] for layer in range(L)]
    heat = go.Heatmap(
        z=means.astype(np.float32),
        x=list(range(C)),
        y=list(range(L)),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        customdata=cells,
        hoverongaps=False,
        hovertemplate="%{customdata.said}<extra></extra>",
    )
    layers, columns = np.nonzero(marked)
    dots = go.Scatter(
        x=columns.tolist(),
        y=layers.tolist(),
        mode="markers",
        marker={"size": 7, "color": "white", "line": {"width": 1.5, "color": _MARK}},
        name=plotly_text(words["marked"]),
        hoverinfo="skip",
        showlegend=False,
    )
    fixed, each, smallest, largest = _HEIGHT
    height = min(max(fixed + each * L, smallest), largest)
    meta = {"scales": scales("signed", "sqrt"), "height": height, "narrow": height}
    drawn = frame(go.Figure([heat, dots]), meta=meta)
    labels: dict = {"range": [-0.5, C - 0.5]}
    if names is not None:
        labels |= {"tickmode": "array", "tickvals": list(range(C)), "ticktext": [tick_text(name) for name in names]}
        labels |= {"tickangle": -60 if C > _FLAT else 0}
    drawn.update_xaxes(**count_axis(words["column"], C, labels))
    drawn.update_yaxes(**layer_axis(words["layer"], L))
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".2~g"}
    bar["title"] = {"text": plotly_text(words["value"]), "side": "right"}
    return drawn.update_layout(coloraxis={"cmin": -top, "cmax": top, "colorbar": bar})


def profile_figure(
    values: np.ndarray,
    stats: Interval,
    random: np.ndarray,
    marked: np.ndarray,
    hovers: Sequence[str],
    names: Sequence[str] | None,
    words: Mapping[str, str],
    *,
    by_row: bool,
) -> go.Figure:
    """Draw values along one axis: each pair as a point, the means with their intervals, and the control's means.

    values [N, C]; random, marked [C]. A marked mean is filled. A click on a mean picks it; `by_row`: places are rows of
    the map, not columns. Keys of `words`: `column`, `value`, `control`, `each`, `mean`, `end`.
    """
    N, C = values.shape
    x, color = list(range(C)), BLUE
    at = np.random.default_rng(0).uniform(-_SPREAD, _SPREAD, (N, C)) / 2 + np.arange(C)
    error = {"type": "data", "symmetric": False, "color": color, "thickness": 2, "width": 5}
    error |= {"array": values_of(stats.high - stats.mean), "arrayminus": values_of(stats.mean - stats.low)}
    pairs = go.Scatter(
        x=values_of(at.ravel()),
        y=values_of(values.ravel()),
        mode="markers",
        name=plotly_text(words["each"]),
        marker={"size": 4, "color": HUES[5], "opacity": 0.7},
        hoverinfo="skip",
    )
    means = go.Scatter(
        x=x,
        y=values_of(stats.mean),
        mode="lines+markers",
        name=plotly_text(words["mean"]),
        line={"color": color, "width": 1.5 if by_row else 0},
        marker={
            "size": 10,
            "color": [color if each else "white" for each in marked],
            "line": {"color": color, "width": 2},
        },
        error_y=error,
        customdata=[{"cell": [n, 0] if by_row else [0, n], "said": hovers[n]} for n in x],
        hovertemplate="%{customdata.said}<extra></extra>",
    )
    control = guide(words["control"], x, random)
    more: dict = {"range": [-0.5, C - 0.5]}
    if names is not None:
        across = token_axis(words["column"], names, more)
    else:
        shown = {"tickvals": ticks(C), "ticktext": [str(n) if n < C - 1 else words["end"] for n in ticks(C)]}
        across = axis(words["column"], more | shown | {"showgrid": False})
    y = axis(words["value"], {**ZERO, "zerolinewidth": 1.5})
    return figure([pairs, control, means], across, y, height=_PROFILE)


def cell_figure(rows: Sequence[Row], hovers: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw each example's effect as a point, one row per `Row`, with the mean and its interval as a diamond.

    Keys of `words`: `value`, `mean`.
    """
    traces: list[go.Scatter] = []
    for place, (row, color) in enumerate(zip(rows, (BLUE, GRAY), strict=True)):
        jitter = np.random.default_rng(0).uniform(-_SPREAD, _SPREAD, len(row.values))
        traces.append(
            go.Scatter(
                x=[plain(float(value)) for value in row.values],
                y=[plain(place + float(by)) for by in jitter],
                name=plotly_text(row.name),
                mode="markers",
                marker={"size": 7, "color": color, "opacity": 0.6},
                hovertext=[plotly_text(each) for each in hovers],
                hovertemplate="%{x:+.4f}<br>%{hovertext}<extra></extra>",
            )
        )
        error = {"type": "data", "symmetric": False, "array": [plain(row.high - row.mean)], "thickness": 2.5}
        error |= {"arrayminus": [plain(row.mean - row.low)], "color": color, "width": 9}
        traces.append(
            go.Scatter(
                x=[plain(row.mean)],
                y=[place],
                name=plotly_text(f"{row.name}: {words['mean']}"),
                mode="markers",
                marker={"size": 13, "color": color, "symbol": "diamond", "line": {"width": 1.5, "color": "white"}},
                error_x=error,
                hovertemplate="%{x:+.4f}<extra></extra>",
            )
        )
    y = {"tickvals": list(range(len(rows))), "ticktext": [plotly_text(row.name) for row in rows], "showgrid": False}
    y |= {"range": [len(rows) - 0.45, -0.55]}
    x = {"zeroline": True, "zerolinewidth": 1.5, "tickformat": ".2~g"}
    more = {"showlegend": False, "margin": {"l": 8, "r": 8, "t": 16, "b": 8}}
    return figure(traces, axis(words["value"], x), axis("", y), height=280, more=more)
