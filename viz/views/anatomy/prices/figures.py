"""What a conversation costs, model by model: bars of what is read for the first time, read again, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

_ROW, _REST = 30, 120  # pixels of a bar, and of what stands around them
PARTS = {"fresh": HUES[0], "again": HUES[5], "written": HUES[4]}


@dataclass(frozen=True)
class Bar:
    """A model's cost: `parts` of PARTS, in the currency of the table, and the day of its price."""

    model: str
    parts: Mapping[str, float]
    as_of: str
    fits: bool


def money(amount: float, currency: str) -> str:
    """An amount with its currency: two decimals from 1 on, three digits below."""
    if amount == 0:
        return f"0 {currency}"
    if amount < 1e-6:
        return f"{amount:.2g} {currency}"
    return f"{amount:,.2f} {currency}" if amount >= 1 else f"{amount:.3g} {currency}"


def price_figure(bars: Sequence[Bar], currency: str, said: Mapping[str, str]) -> str:
    """A bar a model, cheapest on top, JSON. `said`: "cost", "seen", "too_long", and a word for each of PARTS."""
    names = [plotly_text(bar.model if bar.fits else f"{bar.model} *") for bar in bars]
    traces = []
    for part, colour in PARTS.items():
        label = plotly_text(said[part])
        hovers = [
            "<br>".join(
                [
                    name,
                    f"{label}: {plotly_text(money(bar.parts[part], currency))}",
                    f"{plotly_text(said['seen'])} {bar.as_of}",
                    *([] if bar.fits else [plotly_text(said["too_long"])]),
                ]
            )
            for name, bar in zip(names, bars, strict=True)
        ]
        traces.append(
            go.Bar(
                x=[bar.parts[part] for bar in bars],
                y=names,
                name=label,
                orientation="h",
                marker={"color": colour},
                hovertext=hovers,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    height = _REST + _ROW * len(bars)
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": height, "narrow": height}) | {
        "barmode": "stack",
        "bargap": 0.35,
        "xaxis": axis
        | {
            "title": {"text": f"{plotly_text(said['cost'])} ({plotly_text(currency)})", "standoff": 8},
            "rangemode": "tozero",
            "tickformat": ",~g",
        },
        "yaxis": axis | {"autorange": "reversed", "type": "category"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    }
    return go.Figure(traces, layout).to_json()
