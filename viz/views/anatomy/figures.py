"""Shared elements of the anatomy figures: bands stacked as a function of context length, and vertical lines."""

from collections.abc import Sequence

import plotly.graph_objects as go

from viz.charts.lines import line

DARK = "rgba(40,46,60,0.75)"  # color under a light dashed line, to keep it visible on any background
BELOW = {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0}  # legend below the figure, since labels are above it


def band(name: str, x: Sequence[int], y: Sequence[float], color: str, text: Sequence[str], tokens: str) -> go.Scatter:
    """Draw one stacked band as a function of context length.

    `text` holds the hover text of each value; `tokens` is the unit of x.
    """
    style = {"mode": "lines", "stackgroup": "all", "fillcolor": color}
    return line(name, x, y, color, hover=f"%{{x:,}} {tokens}: %{{text}}", text=text, width=0.5, more=style)


def vertical_line(at: float, dash: str) -> list[dict]:
    """Draw a line across the full height of the figure at context length `at`, as two Plotly shapes."""
    shape = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return [shape | {"line": style} for style in outlined(dash)]


def outlined(dash: str) -> tuple[dict, dict]:
    """Return the line styles of a dark solid line and of the light dashed line drawn over it, in this order."""
    return {"width": 2.5, "color": DARK}, {"width": 1.5, "color": "#ffffff", "dash": dash}
