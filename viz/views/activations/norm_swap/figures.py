"""How large the residual stream is before and after norms were changed, layer by layer."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT = 380


def size_figure(before: np.ndarray, after: np.ndarray, position: int, said: Mapping[str, str]) -> go.Figure:
    """Length of the stream by layer on a log scale: median and largest of the tokens, and one token.

    before, after [L + 1, T]; what is NaN has no point. `said`: "before", "after", "median", "largest", "here", "layer",
    "length".
    """
    traces = []
    for name, table, colour, width in (("before", before, HUES[7], 5), ("after", after, HUES[0], 2)):
        for part, dash, values in (
            ("median", "solid", np.median(table, axis=1)),  # NaN where any token has no number
            ("largest", "dash", _largest(table)),
            ("here", "dot", table[:, position]),
        ):
            label = plotly_text(f"{said[name]}, {said[part]}")
            traces.append(
                go.Scatter(
                    x=list(range(len(values))),
                    y=[float(v) if np.isfinite(v) and v > 0 else None for v in values],
                    name=label,
                    mode="lines+markers",
                    marker={"size": 5, "color": colour},
                    line={"color": colour, "width": width, "dash": dash},
                    hovertemplate=f"{label}<br>{plotly_text(said['layer'])} %{{x}}: %{{y:.4g}}<extra></extra>",
                )
            )
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": HEIGHT, "narrow": HEIGHT}) | {
        "xaxis": axis | {"title": {"text": plotly_text(said["layer"]), "standoff": 8}, "tickformat": "d"},
        "yaxis": axis
        | {"title": {"text": plotly_text(said["length"]), "standoff": 8}, "type": "log", "exponentformat": "power"}
        | _ticks(traces),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(traces, layout)


def _ticks(traces: list[go.Scatter]) -> dict:
    """Labels at powers of ten alone where the values span more than two of them, at most about ten of them."""
    shown = [value for trace in traces for value in trace.y if value is not None]
    decades = np.log10(max(shown, default=1) / min(shown, default=1))
    return {"dtick": max(1, round(decades / 10))} if decades > 2 else {}


def _largest(table: np.ndarray) -> np.ndarray:
    """The largest number of each layer, NaN where there is none. [L + 1, T] -> [L + 1]"""
    return np.where(np.isnan(table).all(1), np.nan, np.max(np.where(np.isnan(table), -np.inf, table), axis=1))
