"""Figures of a mixture's routing: the router's probabilities by token and expert, and the entropy of each token."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.charts.lines import guide, line, token_data
from viz.labels import axis_name
from viz.theme import HUES
from viz.views.activations.figures import AxisLabels, Grid, grid_figure, token_line

MOST_NAMES = 24  # maximum number of experts with a label


def numbered(title: str, numbers: Sequence[int]) -> AxisLabels:
    """Build the axis labels of experts or layers."""
    step, names = -(-len(numbers) // MOST_NAMES), [str(number) for number in numbers]
    shown = list(range(0, len(numbers), step))
    return AxisLabels(title, names, shown, [names[at] for at in shown])


def probabilities_figure(
    probabilities: np.ndarray, experts: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]
) -> go.Figure:
    """Draw the probability of each expert for each token, with a dot on the experts that process the token.

    probabilities [T, N], experts [T, k]. `words`: "probability", "expert", "token".
    """
    marked = [(int(expert), at) for at, row in enumerate(experts) for expert in row]
    rows = numbered(words["expert"], range(probabilities.shape[1]))
    columns = token_line(words["token"], pieces)
    return grid_figure(Grid(probabilities.T, words["probability"], rows, columns, "share", marked=marked))


def layers_figure(
    values: np.ndarray, layers: Sequence[int], words: Mapping[str, str], experts: np.ndarray | None = None
) -> go.Figure:
    """Draw a fraction by layer and expert, with a dot on each layer's chosen experts.

    values [L, N], experts [L, k]. `words`: "value", "layer", "expert".
    """
    chosen = () if experts is None else experts
    marked = [(row, int(expert)) for row, each in enumerate(chosen) for expert in each]
    rows, columns = numbered(words["layer"], layers), numbered(words["expert"], range(values.shape[1]))
    figure = grid_figure(Grid(values, words["value"], rows, columns, "share", marked=marked))
    return figure.update_xaxes(tickangle=0)


def entropy_figure(
    bits: np.ndarray, mean: np.ndarray, most: float, pieces: Sequence[str], words: Mapping[str, str]
) -> go.Figure:
    """Draw the entropy of the router by token in one layer and in the mean of all layers, and that of equal
    probabilities. bits and mean [T]. `words`: "layer", "mean", "even", "bits", "position".
    """
    T = len(bits)
    names = [axis_name(at, piece) for at, piece in enumerate(pieces)]
    look = {"customdata": token_data(T)}
    traces = [
        line(words[key], range(T), values, hue, hover="%{text}<br>%{y:.4g}", text=names, more=look)
        for key, values, hue in (("layer", bits, HUES[0]), ("mean", mean, HUES[7]))
    ]
    traces.append(guide(words["even"], [0, max(T - 1, 1)], [most] * 2, "dash"))
    return figure(traces, axis(words["position"]), axis(words["bits"], {"rangemode": "tozero"}), height=300)
