"""The figure of probes: held-out accuracy by layer at one site, beside its controls."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, ORANGE, axis, figure
from viz.charts.lines import band, guide, line, runs
from viz.labels import plotly_text
from viz.numbers import percent

_HEIGHT = 340  # pixels


def accuracy_figure(
    layers: Sequence[int],
    accuracy: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    shuffled: np.ndarray,
    controls: Mapping[str, float],
    words: Mapping[str, str],
) -> go.Figure:
    """Draw the accuracy with its interval, and the mean and range with shuffled labels. [n], shuffled [draws, n]

    `controls` are named horizontal lines. Keys of `words`: `own`, `shuffled`, `layer`, `value`.
    """
    hover = f"{plotly_text(words['layer'])}: %{{x}}<br>{plotly_text(words['value'])}: %{{y:.1%}}"
    spans = [f"{percent(float(a))} – {percent(float(b))}" for a, b in zip(low, high, strict=True)]
    ends = [layers[0], layers[-1]]
    dashes = ("dash", "dot")
    traces = [guide(name, ends, [at, at], dash) for (name, at), dash in zip(controls.items(), dashes, strict=True)]
    traces += runs(words["shuffled"], layers, shuffled, ORANGE, hover=hover)
    traces += band(words["own"], layers, low, high, BLUE)
    more = {"legendgroup": plotly_text(words["own"])}
    traces.append(line(words["own"], layers, accuracy, BLUE, hover=f"{hover}<br>[%{{text}}]", text=spans, more=more))
    x = axis(words["layer"], {"tickmode": "linear", "dtick": max(1, len(layers) // 16)})
    y = axis(words["value"], {"tickformat": ".0%", "range": [min(0.3, float(shuffled.min()), float(low.min())), 1.02]})
    return figure(traces, x, y, height=_HEIGHT)
