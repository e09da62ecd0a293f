"""The figure of operations or times as a function of text length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, figure, powers
from viz.charts.lines import guide, line
from viz.labels import plotly_text
from viz.theme import HUES


@dataclass(frozen=True)
class SavingsCurve:
    """A quantity as a function of text length."""

    name: str
    y: Sequence[float]
    thick: bool = False  # whether it is the reference for the other curves


def by_length(
    curves: Sequence[SavingsCurve], lengths: Sequence[int], words: Mapping[str, str], beside: SavingsCurve | None = None
) -> go.Figure:
    """Draw curves as a function of text length on logarithmic axes.

    `words`: "length", "value"; `beside`: a curve for comparison, drawn as a guide without hover text.
    """
    hover = f"{plotly_text(words['length'])}: %{{x:,}}<br>{plotly_text(words['value'])}: %{{y:.3~g}}"
    lines = [
        line(
            each.name,
            lengths,
            each.y,
            GRAY if each.thick else HUES[n % 7],
            hover=hover,
            width=4 if each.thick else 2.25,
            more={"mode": "lines+markers"},
        )
        for n, each in enumerate(curves)
    ]
    if beside:
        lines.append(guide(beside.name, lengths, beside.y))
    values = [y for each in curves for y in each.y if y == y]
    ticks = {"type": "log", "tickvals": list(lengths), "ticktext": [f"{n:,}" for n in lengths], "tickangle": -30}
    y = axis(words["value"], powers(min(values), max(values)))
    return figure(lines, axis(words["length"], ticks), y, height=420, narrow=460)
