"""The heat map with selectable rows, shared by the `sizes` and `outliers` views."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, axis, ticks, token_names
from viz.charts.shades import colored
from viz.labels import plotly_text, tick_text
from viz.theme import frame_layout

BELOW = LEGEND | {"y": -0.18, "yanchor": "top", "font": {"size": 11}}  # a legend below its figure
_ROW, _SHORTEST, _TALLEST, _FIXED = 22, 300, 660, 110  # heights in pixels: row, minimum and maximum of the figure, axes


@dataclass(frozen=True, eq=False)
class AxisLabels:
    """The category names along an axis, and the tick labels of a subset of them."""

    title: str
    names: Sequence[str]  # unique, escaped for Plotly
    ticks: Sequence[int]  # indices in `names` that get a tick label
    texts: Sequence[str]  # their labels, escaped for Plotly


@dataclass(frozen=True, eq=False)
class Grid:
    """A matrix of numbers with named rows and columns."""

    values: np.ndarray  # [R, C], NaN for a blank cell
    value: str  # name of the quantity
    rows: AxisLabels
    columns: AxisLabels
    shade: str  # color scale, as chosen by viz.charts.shades.shade_of
    notes: list[list[str]] | None = None  # additional hover text of each cell, [R][C], escaped for Plotly
    marked: Sequence[tuple[int, int]] = ()  # (row, column) of each cell marked with a dot


def token_line(title: str, pieces: Sequence[str]) -> AxisLabels:
    """Build the axis labels of the prompt's tokens."""
    shown = ticks(len(pieces))
    return AxisLabels(title, token_names(pieces), shown, [tick_text(pieces[at]) for at in shown])


def layer_line(title: str, names: Sequence[str], layers: Sequence[int]) -> AxisLabels:
    """Build the axis labels of rows, with a layer's number at its first row. layers[r] is the layer of row r."""
    first = [r for r, layer in enumerate(layers) if r == 0 or layers[r - 1] != layer]
    shown = [first[n] for n in ticks(len(first))]
    return AxisLabels(title, [plotly_text(name) for name in names], shown, [str(layers[r]) for r in shown])


def grid_figure(grid: Grid) -> go.Figure:
    """Draw a heat map with the first row on top and exact numbers on hover, whatever the color scale.

    `layout.meta.window` lets the page turn a click into a cell. Rows are numbered from -R, and columns other than
    tokens from below that, so that neither collides with token positions.
    """
    R, C = grid.values.shape
    z, bar, scales = colored(grid.values, grid.shade)
    lines = ["%{y}", f"{plotly_text(grid.columns.title)}: %{{x}}", f"{plotly_text(grid.value)}: %{{customdata:.6g}}"]
    heat = go.Heatmap(
        z=z.astype(np.float32),
        customdata=grid.values.astype(np.float32),
        x=grid.columns.names,
        y=grid.rows.names,
        coloraxis="coloraxis",
        meta={"exact": True},
        xgap=int(C <= 40),
        ygap=int(R <= 40),
        text=grid.notes,
        hovertemplate="<br>".join([*lines, *(["%{text}"] if grid.notes else [])]) + "<extra></extra>",
    )
    height = min(max(_FIXED + _ROW * R, _SHORTEST), _TALLEST)
    across = [-R - C, -R] if grid.notes else [0, C]
    meta = {"block": 1, "window": [-R, 0, *across], "whole": True, "scales": scales, "height": height, "narrow": height}
    layout = frame_layout(meta) | {
        "coloraxis": bar,
        "xaxis": _names(grid.columns, {"tickangle": -60, "range": [-0.5, C - 0.5]}),  # the dots would widen it
        "yaxis": _names(grid.rows, {"range": [R - 0.5, -0.5]}),
    }
    layout["coloraxis"]["colorbar"]["title"] = {"text": plotly_text(grid.value), "side": "right"}
    return go.Figure([heat, _dots(grid)] if grid.marked else [heat], layout)


def _dots(grid: Grid) -> go.Scatter:
    """Draw a dot on every marked cell."""
    return go.Scatter(
        x=[grid.columns.names[c] for _, c in grid.marked],
        y=[grid.rows.names[r] for r, _ in grid.marked],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        marker={"size": 6, "color": "#ffffff", "line": {"color": "#000000", "width": 1.2}},
    )


def _names(line: AxisLabels, more: dict) -> dict:
    """Build a category axis with tick labels at the names selected by `line.ticks`."""
    labels = {"tickmode": "array", "tickvals": [line.names[at] for at in line.ticks], "ticktext": list(line.texts)}
    return axis(line.title, {"type": "category", "showgrid": False, **labels, **more})
