"""Helpers of the figures of anatomy: bands stacked over the context, and upright lines across them."""

from collections.abc import Sequence

import plotly.graph_objects as go

from viz.charts.lines import line

DARK = "rgba(40,46,60,0.75)"  # below a light dashed line, so that it is seen on bands and on either background
BELOW = {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0}  # a legend that leaves the top to labels


def band(name: str, x: Sequence[int], y: Sequence[float], color: str, text: Sequence[str], tokens: str) -> go.Scatter:
    """Return one stacked band over the context; `text` is each value for the hover, `tokens` the word for what x
    counts.
    """
    look = {"mode": "lines", "stackgroup": "all", "fillcolor": color}
    return line(name, x, y, color, hover=f"%{{x:,}} {tokens}: %{{text}}", text=text, width=0.5, more=look)


def upright(at: float, dash: str) -> list[dict]:
    """Return the shapes of a line from bottom to top at a place on the axis of the contexts."""
    place = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return [place | {"line": look} for look in doubled(dash)]


def doubled(dash: str) -> tuple[dict, dict]:
    """Return a light dashed line on a dark one."""
    return {"width": 2.5, "color": DARK}, {"width": 1.5, "color": "#ffffff", "dash": dash}
