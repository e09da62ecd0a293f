"""The figure that compares the dimensions of one token's vector with those of the other tokens."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LOG, ORANGE, axis, figure
from viz.charts.lines import line
from viz.labels import plotly_text
from viz.theme import HUES
from viz.views.activations.figures import BELOW


def dimension_figure(
    token: np.ndarray, others: np.ndarray | None, name: str, limit: float, words: Mapping[str, str]
) -> go.Figure:
    """Draw |x| of every dimension at one token, the median over the other tokens, and the outlier threshold.

    `token` and `others` are [D]. The axis is logarithmic, so zeros leave gaps. `words`: "dimension", "size", "others",
    "limit".
    """
    D = len(token)
    hover, thin = f"{plotly_text(words['dimension'])} %{{x}}<br>%{{y:.6g}}", {"mode": "lines"}
    traces = [line(name, range(D), _logarithmic(token), HUES[0], hover=hover, width=1.2, more=thin)]
    if others is not None:
        y = _logarithmic(others)
        traces.append(line(words["others"], range(D), y, HUES[1], hover=hover, width=1.2, more=thin))
    ends, skip = [0, max(D - 1, 1)], {"mode": "lines", "hoverinfo": "skip"}
    traces.append(line(words["limit"], ends, [limit, limit], ORANGE, hover="", dash="dash", width=1.5, more=skip))
    x, y = axis(words["dimension"], {"showgrid": False}), axis(words["size"], LOG | {"nticks": 6})
    return figure(traces, x, y, height=380, more={"showlegend": True, "legend": BELOW})


def _logarithmic(size: np.ndarray) -> np.ndarray:
    """Replace zeros with NaN for a logarithmic axis."""
    return np.where(size > 0, size.astype(np.float64), np.nan)
