"""The cost of a conversation, model by model: bars of what is read for the first time, read again, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import LEGEND, axis, figure
from viz.labels import plotly_text
from viz.numbers import money
from viz.theme import HUES

_ROW, _REST = 30, 120  # pixels of a bar, and of what stands around them
PARTS = {"fresh": HUES[0], "again": HUES[5], "written": HUES[4]}


@dataclass(frozen=True)
class Bar:
    """A model's cost: `parts` of PARTS, in the currency of the table, and the day of its price."""

    model: str
    parts: Mapping[str, float]
    as_of: str
    fits: bool


def price_figure(bars: Sequence[Bar], currency: str, words: Mapping[str, str]) -> go.Figure:
    """Return a bar a model, cheapest on top. `words`: "cost", "seen", "too_long", and a word for each of PARTS."""
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
    return figure(traces, x, y, height=_REST + _ROW * len(bars), more=more)


def _hover(bar: Bar, name: str, part: str, currency: str, words: Mapping[str, str]) -> str:
    lines = [
        name,
        plotly_text(f"{words[part]}: {money(bar.parts[part], currency)}"),
        plotly_text(f"{words['seen']} {bar.as_of}"),
    ]
    return "<br>".join(lines if bar.fits else [*lines, plotly_text(words["too_long"])])
