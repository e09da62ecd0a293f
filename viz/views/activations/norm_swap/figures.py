"""The figure of the residual stream's length before and after a norm change, layer by layer."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, axis, figure, powers
from viz.charts.lines import line
from viz.labels import plotly_text
from viz.theme import HUES

HEIGHT = 380


def size_figure(before: np.ndarray, after: np.ndarray, position: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the length of the residual stream by layer on a log scale: median and maximum over tokens, and one token.

    before, after [L + 1, T]; NaN and 0 leave gaps. `words`: "before", "after", "median", "largest", "here", "layer" and
    "length".
    """
    traces = []
    for name, table, color, width in (("before", before, HUES[7], 5), ("after", after, BLUE, 2)):
        for part, dash, values in (
            ("median", "solid", np.median(table, axis=1)),  # NaN if the value is NaN for any token
            ("largest", "dash", _largest(table)),
            ("here", "dot", table[:, position]),
        ):
            y = np.where(values > 0, values, np.nan)  # 0 has no logarithm
            hover = f"{plotly_text(words['layer'])} %{{x}}: %{{y:.4g}}"
            label = f"{words[name]}, {words[part]}"
            more = {"mode": "lines+markers"}
            traces.append(line(label, range(len(y)), y, color, hover=hover, dash=dash, width=width, more=more))
    shown = [value for trace in traces for value in trace.y if value is not None]
    y_axis = axis(words["length"], powers(min(shown, default=1), max(shown, default=1)))
    return figure(traces, axis(words["layer"], {"tickformat": "d"}), y_axis, height=HEIGHT)


def _largest(table: np.ndarray) -> np.ndarray:
    """Compute the maximum of each layer, ignoring NaN; NaN for a layer of only NaN. [L + 1, T] -> [L + 1]"""
    return np.where(np.isnan(table).all(1), np.nan, np.max(np.where(np.isnan(table), -np.inf, table), axis=1))
