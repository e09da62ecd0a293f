"""Figures of a shuffled prompt: the last token's weights in both orders, and its hidden state's change by layer."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, ORANGE, RED, axis, count_axis, figure, powers, token_axis, token_names
from viz.charts.lines import bars, line, token_data
from viz.labels import plotly_text
from viz.numbers import exact

FLOOR = 1e-8  # replaces a distance of exactly 0 on the logarithmic axis
_HUES, _HEIGHT = {"model": RED, "no_positions": GREEN, "no_mask": BLUE}, 340


def weights_figure(weights: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the weight on every token in the original and in the shuffled order. weights [2, T]

    Keys of `words`: `written`, `shuffled`, `key`, `weight`.
    """
    T = len(pieces)
    hover = f"{plotly_text(words['key'])}: %{{text}}<br>{plotly_text(words['weight'])}: %{{y:.4f}}"
    names, data = token_names(pieces), {"customdata": token_data(T)}
    traces = [
        bars(words[key], range(T), row, color, hover=hover, text=names, more=data)
        for key, row, color in zip(("written", "shuffled"), weights, (BLUE, ORANGE), strict=True)
    ]
    x = token_axis(words["key"], pieces)
    y = axis(words["weight"], {"rangemode": "tozero"})
    return figure(traces, x, y, height=_HEIGHT, meta={"places": True}, more={"bargap": 0.2})


def distance_figure(distances: Mapping[str, np.ndarray], words: Mapping[str, str]) -> go.Figure:
    """Draw the relative change of the last token's hidden state after each layer. {way: [L]}

    Keys of `words`: the ways, `block`, `distance`.
    """
    traces = []
    for way, values in distances.items():
        hovers = [exact(float(value), 3) for value in values]
        hover = f"{plotly_text(words['block'])}: %{{x}}<br>{plotly_text(words['distance'])}: %{{text}}"
        drawn = np.maximum(values, FLOOR)
        traces.append(line(words[way], range(len(values)), drawn, _HUES[way], hover=hover, text=hovers, width=2.5))
    n = len(next(iter(distances.values())))
    y = axis(words["distance"], powers(FLOOR, 10.0) | {"range": [float(np.log10(FLOOR)) - 0.2, 0.8]})
    return figure(traces, count_axis(words["block"], n), y, height=_HEIGHT)
