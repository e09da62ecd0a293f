"""Bars by turn of a conversation: a group of bars a turn, a colour a head."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import ZERO, axis, figure
from viz.charts.lines import bars
from viz.theme import HUES

HOVER = "%{x}<br>%{text}"


def turn_figure(
    names: Sequence[str],
    heads: Sequence[str],
    numbers: np.ndarray,
    texts: Sequence[Sequence[str]],
    words: Mapping[str, str],
    more: Mapping | None = None,
) -> go.Figure:
    """Numbers of each head by turn, [heads, turns], with the text of each on hover. Words: turn, value."""
    traces = [
        bars(head, names, row, HUES[at % len(HUES)], hover=HOVER, text=shown)
        for at, (head, row, shown) in enumerate(zip(heads, numbers, texts, strict=True))
    ]
    x = axis(words["turn"], {"type": "category", "categoryorder": "array", "categoryarray": list(names)})
    y = axis(words["value"], {**ZERO, **(more or {})})
    return figure(traces, x, y, more={"barmode": "group", "showlegend": len(heads) > 1})
