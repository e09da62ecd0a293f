"""Lines and bars of a figure, with hovers that show the series, the x value and the full y value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY
from viz.labels import plotly_text
from viz.numbers import number, plain
from viz.theme import frame_layout

SMOOTH = 10  # number of training steps over which a smoothed loss is averaged
MARKED = 128  # maximum number of points of a line with markers
HOVER_TEXT = "%{hovertext}<extra></extra>"  # a hover template that shows prepared texts


def running_mean(values: np.ndarray, window: int = SMOOTH) -> np.ndarray:
    """Compute the mean of each value and the `window` - 1 before it, or fewer at the beginning. [N] -> [N]"""
    total = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(1, len(values) + 1)
    first = np.maximum(at - window, 0)
    return (total[at] - total[first]) / (at - first)


def values(y: Sequence[float]) -> list[float | None]:
    """Round the values of a trace to six significant digits; None for values that are not finite."""
    return [plain(float(each)) for each in y]


def line(
    name: str,
    x: Sequence[Any],
    y: Sequence[float],
    color: str,
    *,
    hover: str,
    text: Sequence[str] | None = None,
    dash: str = "solid",
    width: float = 2,
    more: Mapping[str, Any] | None = None,
) -> go.Scatter:
    """Draw a line, with markers if it has few points. `hover` is the template after the name of the series."""
    label = plotly_text(name)
    settings = {
        "x": list(x),
        "y": values(y),
        "name": label,
        "mode": "lines+markers" if len(x) <= MARKED else "lines",
        "line": {"color": color, "width": width, "dash": dash},
        "marker": {"size": 5, "color": color},
        "hovertemplate": f"{label}<br>{hover}<extra></extra>",
    }
    return go.Scatter(settings | ({"text": list(text)} if text is not None else {}) | dict(more or {}))


def band(
    name: str,
    x: Sequence[Any],
    low: Sequence[float],
    high: Sequence[float],
    color: str,
    *,
    edges: tuple[str, str] = ("", ""),
    hover: str = "",
) -> list[go.Scatter]:
    """Draw the area between two lines, below the line of the same name; the legend toggles both together.

    If `hover` is empty, the band is excluded from hovers and exports; otherwise both edges are included, named by
    `edges`.
    """
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    look = {
        "x": list(x),
        "mode": "lines",
        "line": {"width": 0, "color": color},
        "showlegend": False,
        "legendgroup": plotly_text(name),
    }
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.16)"}
    lower, upper = (
        go.Scatter(look | {"y": values(y)} | (_read(edge, hover) if hover else {"hoverinfo": "skip"}))
        for edge, y in zip(edges, (low, high), strict=True)
    )
    return [lower, upper.update(fill)]


def _read(name: str, hover: str) -> dict[str, str]:
    label = plotly_text(name)
    return {"name": label, "hovertemplate": f"{label}<br>{hover}<extra></extra>"}


def runs(
    name: str,
    x: Sequence[Any],
    y: np.ndarray,
    color: str,
    *,
    hover: str,
    dash: str = "solid",
    more: Mapping[str, Any] | None = None,
) -> list[go.Scatter]:
    """Draw the mean of several runs over a band from the minimum to the maximum, which the hover shows. y [runs, N]"""
    low, high = y.min(0), y.max(0)
    spans = [f"{number(a)} – {number(b)}" for a, b in zip(low, high, strict=True)]
    style = {"legendgroup": plotly_text(name), **(more or {})}
    hover = f"{hover}<br>[%{{text}}]"
    mean = line(name, x, y.mean(0), color, hover=hover, text=spans, dash=dash, width=2.5, more=style)
    return [*band(name, x, low, high, color), mean]


def guide(name: str, x: Sequence[Any], y: Sequence[float], dash: str = "dot") -> go.Scatter:
    """Draw a thin gray reference line, which is excluded from hovers and exports."""
    more = {"mode": "lines", "hoverinfo": "skip"}
    return line(name, x, y, GRAY, hover="", dash=dash, width=1.5, more=more)


def bars(
    name: str,
    x: Sequence[Any],
    y: Sequence[float],
    color: str,
    *,
    hover: str,
    text: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> go.Bar:
    """Draw vertical bars; `text` is shown only on hover."""
    label = plotly_text(name)
    settings = {
        "x": list(x),
        "y": values(y),
        "name": label,
        "marker": {"color": color, "line": {"width": 0}},
        "hovertemplate": f"{label}<br>{hover}<extra></extra>",
    }
    shown = {"text": list(text), "textposition": "none"} if text is not None else {}
    return go.Bar(settings | shown | dict(more or {}))


def rows(
    name: str,
    y: Sequence[str],
    x: Sequence[float],
    color: str,
    *,
    hovers: Sequence[str],
    more: Mapping[str, Any] | None = None,
) -> go.Bar:
    """Draw horizontal bars on an axis of rows. `hovers` are complete texts in Plotly's markup."""
    settings = {
        "x": values(x),
        "y": list(y),
        "orientation": "h",
        "name": plotly_text(name),
        "marker": {"color": color, "line": {"width": 0}},
        "hovertext": list(hovers),
        "hovertemplate": HOVER_TEXT,
    }
    return go.Bar(settings | dict(more or {}))


def token_data(n: int) -> list[dict]:
    """Build the custom data with which a click on the points 0 .. n - 1 selects the token at that position."""
    return [{"tokens": [i]} for i in range(n)]


def stacked(
    panels: Mapping[str, Sequence[Any]],
    x: Mapping[str, Any],
    y: Mapping[str, Mapping[str, Any]],
    *,
    height: int,
    legend: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    gap: float = 0.04,
) -> go.Figure:
    """Draw panels stacked on one x axis: `panels` maps names to traces, `y` maps names to y axes, from top to
    bottom.
    """
    traces, layout, n = [], {}, len(panels)
    for at, (name, panel) in enumerate(panels.items()):
        tail = str(at + 1) if at else ""
        low = 1 - (at + 1) / n
        domain = [low + (gap if at < n - 1 else 0), 1 - at / n - gap / 2]
        layout[f"yaxis{tail}"] = dict(y[name]) | {"domain": domain, "anchor": "x"}
        traces += [trace.update(yaxis=f"y{tail}") for trace in panel]
    layout["xaxis"] = dict(x) | {"anchor": f"y{n}" if n > 1 else "y"}
    full_meta = {"height": height, "narrow": height, **(meta or {})}
    return go.Figure(traces, frame_layout(full_meta) | layout | {"legend": dict(legend)})


def grid(
    panels: Mapping[str, Sequence[Any]],
    x: Mapping[str, Mapping[str, Any]],
    y: Mapping[str, Mapping[str, Any]],
    *,
    height: int,
    narrow: int,
    legend: Mapping[str, Any],
    columns: tuple[int, int] = (2, 1),
    meta: Mapping[str, Any] | None = None,
) -> go.Figure:
    """Draw panels side by side, each with its own axes. `columns` is the number per row on a wide and on a narrow
    page.
    """
    names, traces = list(panels), []
    for at, panel in enumerate(panels.values()):
        tail = str(at + 1) if at else ""
        traces += [trace.update(xaxis=f"x{tail}", yaxis=f"y{tail}") for trace in panel]
    wide, few = columns
    beside, narrowed = _places(names, x, y, wide, 0.24 / wide), _places(names, x, y, few, 0.24)
    full_meta = {"height": height, "narrow": narrow, "stacked": narrowed, **(meta or {})}
    return go.Figure(traces, frame_layout(full_meta) | beside | {"legend": dict(legend)})


def _places(
    names: Sequence[str], x: Mapping[str, Mapping], y: Mapping[str, Mapping], columns: int, beside: float
) -> dict:
    """Build the axes of panels in a given number of columns. `beside` is the gap between columns as a fraction of the
    width.
    """
    n_rows, axes = -(-len(names) // columns), {}
    gap = 0.2 / n_rows if columns == 1 else 0.15
    height, width = (1 - gap * (n_rows - 1)) / n_rows, (1 - beside * (columns - 1)) / columns
    for at, name in enumerate(names):
        tail = str(at + 1) if at else ""
        top = 1 - (at // columns) * (height + gap)
        left = (at % columns) * (width + beside)
        across = [left, min(1.0, left + width)]
        axes[f"xaxis{tail}"] = dict(x[name]) | {"domain": across, "anchor": f"y{tail}"}
        axes[f"yaxis{tail}"] = dict(y[name]) | {"domain": [max(0.0, top - height), top], "anchor": f"x{tail}"}
    return axes
