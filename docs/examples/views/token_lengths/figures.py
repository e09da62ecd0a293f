"""The picture of token_lengths: numbers in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, axis, figure, token_axis, token_names
from viz.charts.lines import bars, token_data
from viz.labels import plotly_text


def lengths_figure(lengths: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """A bar a token; a click picks it. `words`: "token", "length"."""
    hover = f"{plotly_text(words['token'])}: %{{text}}<br>{plotly_text(words['length'])}: %{{y}}"
    more = {"customdata": token_data(len(lengths))}
    names = token_names(pieces)
    drawn = bars(words["length"], range(len(lengths)), lengths, BLUE, hover=hover, text=names, more=more)
    return figure([drawn], token_axis(words["token"], pieces), axis(words["length"]), meta={"places": True})
