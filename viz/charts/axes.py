"""Axes, legends and layout shared by all figures: how to name an axis, thin its ticks and place a legend."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from viz.labels import axis_name, plotly_text, tick_text
from viz.numbers import tens
from viz.theme import HUES, frame_layout

BLUE, ORANGE, GREEN, PINK, RED = HUES[0], HUES[4], HUES[2], HUES[3], HUES[1]
GRAY = "rgba(128,134,150,0.9)"
HEIGHT = 320
MOST_TICKS = 24  # maximum number of token labels on an axis; more would take longer to draw than the cells
LOG: dict[str, Any] = {"type": "log", "tickformat": ",~g", "nticks": 7}  # a log axis
ZERO: dict[str, Any] = {"zeroline": True, "zerolinecolor": "rgba(128,128,128,0.5)"}  # an axis with a zero line
LEGEND: dict[str, Any] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}


def axis(title: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build an axis with a title, room for its labels, and no zero line."""
    named = {"title": {"text": plotly_text(title), "standoff": 8}} if title else {}
    return {"automargin": True, "zeroline": False, **named, **(more or {})}


def powers(low: float, high: float, most: int = 8) -> dict[str, Any]:
    """Build a log axis from `low` to `high`, both above 0, with about `most` labels at powers of ten.

    Plotly writes 10² larger than 10 and 1, so the labels are generated here, all in the same format. A range with
    fewer than two powers of ten gets plain numbers.
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // most))
    at = [each for each in range(first, last + 1) if each % step == 0]
    shown = {"tickmode": "array", "tickvals": [10.0**each for each in at], "ticktext": tens(at)}
    return {"type": "log", **shown} if len(at) > 1 else LOG


def ticks(n: int, limit: int = MOST_TICKS) -> list[int]:
    """Return the positions 0 .. n - 1, thinned evenly to at most `limit`."""
    return list(range(0, n, max(1, -(-n // limit))))


def token_axis(
    title: str, pieces: Sequence[str], more: Mapping[str, Any] | None = None, limit: int = MOST_TICKS
) -> dict[str, Any]:
    """Build an axis of token positions with short labels on some of them; hovers show the names from `token_names`."""
    at = ticks(len(pieces), limit)
    labels = [tick_text(pieces[i]) for i in at]
    shown = {"tickvals": at, "ticktext": labels, "tickangle": -60, "showgrid": False}
    return axis(title, {**shown, "range": [-0.6, len(pieces) - 0.4], **(more or {})})


def row_axis(names: Sequence[str], ticks: Sequence[str], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build an axis of rows from top to bottom, with unique category names and the labels beside them."""
    rows = {"type": "category", "categoryorder": "array", "categoryarray": list(names), "showgrid": False}
    shown = {"tickvals": list(names), "ticktext": list(ticks), "tickfont": {"size": 11}}
    return axis("", {**rows, **shown, "range": [len(names) - 0.3, -0.7], **(more or {})})


def row_tick(piece: str, marked: bool) -> str:
    """Format the label of a token's row, in bold if it is marked."""
    return f"<b>◆ {tick_text(piece)}</b>" if marked else tick_text(piece)


def count_axis(title: str, count: int, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build an axis of nonnegative integers, for layers and heads, with at most 16 labels."""
    shown = {"tickmode": "linear", "tick0": 0, "dtick": max(1, -(-count // 16)), "showgrid": False}
    return axis(title, {**shown, **(more or {})})


def layer_axis(title: str, count: int, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build the vertical axis of a grid of layers: layer 0 on top. Every such grid uses it, so that all run alike."""
    return count_axis(title, count, {**(more or {}), "autorange": "reversed"})


def token_names(pieces: Sequence[str]) -> list[str]:
    """Return the position and text of every token, as hovers show them."""
    return [axis_name(i, piece) for i, piece in enumerate(pieces)]


def figure(
    traces: Sequence[Any],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    *,
    height: int = HEIGHT,
    narrow: int | None = None,
    meta: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> go.Figure:
    """Draw traces on one pair of axes, with a legend above. `narrow` is the figure's height on a phone; for `meta`,
    see parts/figure/figure.js.
    """
    full_meta = {"height": height, "narrow": narrow or height, **(meta or {})}
    layout = frame_layout(full_meta) | {"xaxis": dict(x), "yaxis": dict(y), "legend": LEGEND} | dict(more or {})
    return go.Figure(list(traces), layout)


def hover(name: str, *lines: str) -> str:
    """Build a hover template: the name of the series, then "label: value" lines, without Plotly's extra box."""
    return "<br>".join([plotly_text(name), *lines]) + "<extra></extra>"
