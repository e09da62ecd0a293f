"""The figure of the gradient norm during backpropagation through a stack of layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, LOG, ORANGE, axis, figure
from viz.charts.lines import guide, runs
from viz.labels import plotly_text


@dataclass(frozen=True, eq=False)
class GradientLine:
    """One line of the figure: its name, the gradient norms by seed, and the chain rule's prediction, if any."""

    name: str
    residual: bool
    lengths: np.ndarray  # norms [seeds, L + 1]
    predicted: np.ndarray | None  # norms [L + 1]


def lengths_figure(ways: Sequence[GradientLine], words: Mapping[str, str]) -> go.Figure:
    """Draw the gradient norm by layer on a logarithmic axis, one line per stack.

    `words`: "layer", "length", "predicted".
    """
    at = range(ways[0].lengths.shape[1])
    hover = f"{plotly_text(words['layer'])}: %{{x}}<br>{plotly_text(words['length'])}: %{{y:.4g}}"
    traces = []
    for way in ways:
        lengths = np.where(way.lengths > 0, way.lengths, np.nan)
        traces += runs(way.name, at, lengths, BLUE if way.residual else ORANGE, hover=hover)
        if way.predicted is not None:
            traces.append(guide(words["predicted"].format(name=way.name), at, way.predicted))
    return figure(traces, axis(words["layer"]), axis(words["length"], LOG), height=420, narrow=420)
