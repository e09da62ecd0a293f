"""The map that the views of sizes and outliers share: a number a row and column, with a row to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, axis, ticks, token_names
from viz.charts.shades import colored
from viz.labels import plotly_text, tick_text
from viz.theme import frame_layout

BELOW = LEGEND | {"y": -0.18, "yanchor": "top", "font": {"size": 11}}  # a legend under its figure
_ROW, _LEAST, _MOST, _FIXED = 22, 300, 660, 110  # pixels: a row, least and most of a figure, its axes


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
    shade: str  # of viz.charts.shades.shade_of
    notes: list[list[str]] | None = None  # what a cell's hover says besides, [R][C], escaped for Plotly
    marked: Sequence[tuple[int, int]] = ()  # cells with a dot


def token_line(title: str, pieces: Sequence[str]) -> Line:
    """Return a prompt's tokens along an axis."""
    shown = ticks(len(pieces))
    return Line(title, token_names(pieces), shown, [tick_text(pieces[at]) for at in shown])


def layer_line(title: str, names: Sequence[str], layers: Sequence[int]) -> Line:
    """Return the rows along an axis, the first one of a layer labeled with its number. layers[r] is the layer of row
    r.
    """
    first = [r for r, layer in enumerate(layers) if r == 0 or layers[r - 1] != layer]
    shown = [first[n] for n in ticks(len(first))]
    return Line(title, [plotly_text(name) for name in names], shown, [str(layers[r]) for r in shown])


def grid_figure(grid: Grid) -> go.Figure:
    """Return a heat map, the first row at the bottom; exact numbers on hover, whatever the colors.

    `layout.meta.window` makes a click a cell for the page; its rows and columns are counted from -R and, for columns
    that are not tokens, from below that, so that no token's number is one of theirs.
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
    height = min(max(_FIXED + _ROW * R, _LEAST), _MOST)
    across = [-R - C, -R] if grid.notes else [0, C]
    meta = {"block": 1, "window": [-R, 0, *across], "whole": True, "scales": scales, "height": height, "narrow": height}
    layout = frame_layout(meta) | {
        "coloraxis": bar,
        "xaxis": _names(grid.columns, {"tickangle": -60, "range": [-0.5, C - 0.5]}),  # dots would widen it
        "yaxis": _names(grid.rows, {"range": [-0.5, R - 0.5]}),
    }
    layout["coloraxis"]["colorbar"]["title"] = {"text": plotly_text(grid.value), "side": "right"}
    return go.Figure([heat, _dots(grid)] if grid.marked else [heat], layout)


def _dots(grid: Grid) -> go.Scatter:
    """Return a dot on every marked cell."""
    return go.Scatter(
        x=[grid.columns.names[c] for _, c in grid.marked],
        y=[grid.rows.names[r] for r, _ in grid.marked],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        marker={"size": 6, "color": "#ffffff", "line": {"color": "#000000", "width": 1.2}},
    )


def _names(line: Line, more: dict) -> dict:
    """Return a category axis with a label on some of its names."""
    labels = {"tickmode": "array", "tickvals": [line.names[at] for at in line.ticks], "ticktext": list(line.texts)}
    return axis(line.title, {"type": "category", "showgrid": False, **labels, **more})
