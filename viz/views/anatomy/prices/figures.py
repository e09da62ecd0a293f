"""The cost of conversations by model: stacked bars of new input, resent input and output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import LEGEND, axis, figure
from viz.labels import plotly_text
from viz.numbers import money
from viz.theme import HUES

_ROW, _MARGIN = 30, 120  # heights in pixels: one bar, and everything around the bars
PARTS = {"fresh": HUES[0], "again": HUES[5], "written": HUES[4]}


@dataclass(frozen=True)
class CostBar:
    """One model's cost: its `parts` by key of PARTS, in the currency of the price table, and the date of its price."""

    model: str
    parts: Mapping[str, float]
    as_of: str
    fits: bool


def price_figure(bars: Sequence[CostBar], currency: str, words: Mapping[str, str]) -> go.Figure:
    """Draw one bar per model, in the given order from top to bottom.

    `words`: "cost", "seen", "too_long", and each key of PARTS.
    """
    names = [plotly_text(bar.model if bar.fits else f"{bar.model} *") for bar in bars]
    traces = [
        go.Bar(
            x=[bar.parts[part] for bar in bars],
            y=names,
            name=plotly_text(words[part]),
            orientation="h",
            marker={"color": color},
            hovertext=[_hover(bar, name, part, currency, words) for bar, name in zip(bars, names, strict=True)],
            hovertemplate="%{hovertext}<extra></extra>",
        )
        for part, color in PARTS.items()
    ]
    x = axis(f"{words['cost']} ({currency})", {"rangemode": "tozero", "tickformat": ",~g"})
    y = axis("", {"autorange": "reversed", "type": "category"})
    more = {"barmode": "stack", "bargap": 0.35, "legend": LEGEND | {"traceorder": "normal"}}
    return figure(traces, x, y, height=_MARGIN + _ROW * len(bars), more=more)


def _hover(bar: CostBar, name: str, part: str, currency: str, words: Mapping[str, str]) -> str:
    lines = [
        name,
        plotly_text(f"{words[part]}: {money(bar.parts[part], currency)}"),
        plotly_text(f"{words['seen']} {bar.as_of}"),
    ]
    return "<br>".join(lines if bar.fits else [*lines, plotly_text(words["too_long"])])
