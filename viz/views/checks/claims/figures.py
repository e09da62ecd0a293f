"""The figure of a claim: its number on every text, the mean with its interval, and where it counts as true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, ORANGE, PINK, axis, figure
from viz.labels import plotly_text
from viz.numbers import plain

_SPREAD = 0.28  # the points of a row are spread over this distance above and below it, so that they do not overlap
_MARGINS = {"l": 8, "r": 8, "t": 26, "b": 8}  # in pixels; the label of the shaded area stands above the plot
_MARGIN = 0.08  # room beside the outermost points, as a fraction of the axis


@dataclass(frozen=True)
class Row:
    """The numbers of a claim on one model."""

    name: str
    values: np.ndarray  # [N], NaN where a text has none
    mean: float
    low: float
    high: float
    hover: Sequence[str]  # of each text


def claim_figure(
    rows: Sequence[Row], bounds: tuple[float | None, float | None], tick: str, words: Mapping[str, str]
) -> go.Figure:
    """Draw one row of points per model over the shaded area where the claim is true. `tick` is the format of the axis.

    Keys of `words`: `x` (the number and its unit), `true`, `mean`.
    """
    ends = _range(rows, bounds)
    traces: list[go.Scatter] = []
    for place, row in enumerate(rows):
        traces += _row(place, row, (BLUE, ORANGE, PINK)[place % 3], words["mean"])
    y = {"tickvals": list(range(len(rows))), "ticktext": [plotly_text(row.name) for row in rows], "showgrid": False}
    y |= {"range": [len(rows) - 0.45, -0.55]}
    x = {"range": ends, "tickformat": tick}
    more = {"annotations": [_label(bounds, ends, words["true"])], "showlegend": False, "margin": _MARGINS}
    meta = {"shapes": _area(bounds, ends)}
    return figure(traces, axis(words["x"], x), axis("", y), height=130 + 80 * len(rows), meta=meta, more=more)


def _row(place: int, row: Row, color: str, mean: str) -> list[go.Scatter]:
    """Draw the points of one model and, below them, the mean with its interval."""
    jitter = np.random.default_rng(0).uniform(-_SPREAD, _SPREAD, len(row.values))
    texts = [n for n, value in enumerate(row.values) if np.isfinite(value)]
    points = go.Scatter(
        x=[plain(float(row.values[n])) for n in texts],
        y=[plain(place + jitter[n]) for n in texts],
        name=plotly_text(row.name),
        mode="markers",
        marker={"size": 6, "color": color, "opacity": 0.4},
        hovertext=[plotly_text(row.hover[n]) for n in texts],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    error = {"type": "data", "symmetric": False, "array": [plain(row.high - row.mean)], "thickness": 2.5, "width": 9}
    error |= {"arrayminus": [plain(row.mean - row.low)], "color": color}
    middle = go.Scatter(
        x=[plain(row.mean)],
        y=[place],
        name=plotly_text(f"{row.name}: {mean}"),
        mode="markers",
        marker={"size": 13, "color": color, "symbol": "diamond", "line": {"width": 1.5, "color": "white"}},
        error_x=error,
        hovertemplate="%{x}<extra></extra>",
    )
    return [points, middle]


def _range(rows: Sequence[Row], bounds: tuple[float | None, float | None]) -> list[float]:
    """Return the ends of the axis: all points, and the bounds of the claim, with a margin."""
    known = [float(value) for row in rows for value in row.values if np.isfinite(value)]
    known += [bound for bound in bounds if bound is not None]
    low, high = min(known), max(known)
    margin = _MARGIN * (high - low or abs(high) or 1)
    return [low - margin, high + margin]


def _area(bounds: tuple[float | None, float | None], ends: Sequence[float]) -> list[dict[str, Any]]:
    """Shade where the claim is true, with a line at each bound."""
    low, high = (end if bound is None else bound for bound, end in zip(bounds, ends, strict=True))
    box = {"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1, "layer": "below"}
    lines = [
        {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
        | {"line": {"color": GREEN, "width": 1.5, "dash": "dot"}}
        for at in bounds
        if at is not None
    ]
    return [box | {"fillcolor": GREEN, "opacity": 0.12, "line": {"width": 0}}, *lines]


def _label(bounds: tuple[float | None, float | None], ends: Sequence[float], text: str) -> dict[str, Any]:
    """Name the shaded area above the plot, at its outer end, or in its middle if it has two bounds."""
    low, high = bounds
    place = {"x": ends[0], "xanchor": "left"} if low is None else {"x": ends[1], "xanchor": "right"}
    if low is not None and high is not None:
        place = {"x": (low + high) / 2, "xanchor": "center"}
    place |= {"xref": "x", "y": 1, "yref": "paper", "yanchor": "bottom"}
    return place | {"text": plotly_text(text), "showarrow": False, "font": {"color": GREEN, "size": 12}}
