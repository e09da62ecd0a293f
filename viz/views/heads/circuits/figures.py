"""Figures of a head's weights: the scores of all heads, and the singular values beside those of random heads."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, axis, figure
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.charts.lines import band, bars, line
from viz.labels import plotly_text

_HEIGHT = 280  # pixels


def scores_figure(scores: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw the score of every head, from -1 to 1. [L, H] Keys of `words`: `layer`, `head`, `value`."""
    hover = f"{plotly_text(words['value'])}: %{{z:+.3f}}"
    names = HeadWords(words["layer"], words["head"], words["value"])
    return head_figure(scores, names, hover, signed=True, least=1.0)


def values_figure(values: np.ndarray, random: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw the singular values as bars, and the range and mean of those of random heads. [E], [draws, E]

    Keys of `words`: `own`, `random`, `across`, `value`.
    """
    x = list(range(1, len(values) + 1))
    hover = f"{plotly_text(words['across'])} %{{x}}<br>{plotly_text(words['value'])}: %{{y:.4g}}"
    gray = "#808696"
    return figure(
        [
            bars(words["own"], x, values.tolist(), BLUE, hover=hover),
            *band(words["random"], x, random.min(0).tolist(), random.max(0).tolist(), gray),
            line(words["random"], x, random.mean(0).tolist(), GRAY, hover=hover, more={"legendgroup": words["random"]}),
        ],
        axis(words["across"], {"showgrid": False}),
        axis(words["value"], {"rangemode": "tozero"}),
        height=_HEIGHT,
    )
