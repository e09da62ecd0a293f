"""The bar chart by conversation turn: one group of bars per turn, one color per head or method."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import ZERO, axis, figure
from viz.charts.lines import bars
from viz.theme import HUES

HOVER = "%{x}<br>%{hovertext}"  # `text` would add a column to the exported table


def turn_figure(
    names: Sequence[str],
    series: Sequence[str],
    numbers: np.ndarray,
    texts: Sequence[Sequence[str]],
    words: Mapping[str, str],
    more: Mapping | None = None,
) -> go.Figure:
    """Draw the values of each series by turn, with texts on hover. numbers, texts [series, turns]

    `words`: "turn", "value".
    """
    traces = [
        bars(name, names, row, HUES[at % len(HUES)], hover=HOVER, more={"hovertext": list(shown)})
        for at, (name, row, shown) in enumerate(zip(series, numbers, texts, strict=True))
    ]
    x = axis(words["turn"], {"type": "category", "categoryorder": "array", "categoryarray": list(names)})
    y = axis(words["value"], {**ZERO, **(more or {})})
    return figure(traces, x, y, more={"barmode": "group", "showlegend": len(series) > 1})
