"""FLOPs as a function of context length, and each component's fraction of the FLOPs beside its fraction of the time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, LEGEND, axis, figure, hover, powers
from viz.charts.lines import line, values
from viz.labels import plotly_text
from viz.numbers import flops, flops_unit
from viz.theme import HUES, frame_layout
from viz.views.anatomy.figures import BELOW, band, vertical_line

HEIGHT = 420
COLORS = {
    "attention": HUES[4],
    "state": HUES[5],
    "projections": HUES[0],
    "mlp": HUES[2],
    "head": HUES[1],
    "rest": HUES[7],
}
_MUTED = "rgba(128,134,150,0.35)"


@dataclass(frozen=True)
class FlopsBand:
    """FLOPs of one group of operations at every context length."""

    key: str  # a key of `COLORS`
    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Mark:
    """A context length with a vertical line and a label."""

    at: float
    text: str
    value: float | None = None  # FLOPs of the point to draw on the line; None for no point
    strong: bool = True


@dataclass(frozen=True)
class ComponentBar:
    """One component: its fractions of the FLOPs and of the time, and the hover texts of its bars."""

    name: str
    work: float
    time: float
    spread: tuple[float, float]  # interquartile range of the repeats, relative to the same total
    texts: tuple[str, str]  # hover texts of the two bars


def work_figure(
    x: Sequence[int], bands: Sequence[FlopsBand], marks: Sequence[Mark], stacked: bool, words: Mapping[str, str]
) -> go.Figure:
    """Draw FLOPs as a function of context length, stacked on linear axes or as lines on logarithmic axes.

    `words`: "context", "axis", "tokens".
    """
    highest = max(map(sum, zip(*(each.values for each in bands), strict=True)))
    scale, unit = flops_unit(highest) if stacked else (1.0, "FLOP")
    traces = [_curve(x, each, scale, stacked, words) for each in bands if max(each.values) > 0]
    traces += [_point(mark, scale) for mark in marks if mark.value is not None]
    name = f"{words['axis']} ({unit})"
    if stacked:
        x_axis = axis(words["context"], {"range": [0, x[-1]], "tickformat": ",~r"})
        y_axis = axis(name, {"rangemode": "tozero", "tickformat": ",~r"})
    else:
        x_axis = axis(words["context"], {"type": "log", "range": [0, math.log10(x[-1])], "tickformat": ",~r"})
        shown = [value for trace in traces for value in trace.y if value]
        y_axis = axis(name, powers(min(shown, default=1), max(shown, default=1)))
    more = {
        "legend": BELOW,
        "annotations": [_label(mark, row, stacked, x[-1]) for row, mark in enumerate(marks)],
        "margin": frame_layout({})["margin"] | {"t": 18 * len(marks) + 8},
    }
    shapes = [shape for mark in marks for shape in vertical_line(mark.at, "dash" if mark.strong else "dot")]
    return figure(traces, x_axis, y_axis, height=HEIGHT, meta={"shapes": shapes}, more=more)


def _curve(x: Sequence[int], each: FlopsBand, scale: float, stacked: bool, words: Mapping[str, str]) -> go.Scatter:
    color, text, tokens = COLORS[each.key], [flops(value) for value in each.values], plotly_text(words["tokens"])
    if stacked:
        return band(each.name, x, [value / scale for value in each.values], color, text, tokens)
    y = [value or math.nan for value in each.values]  # a logarithmic axis cannot show 0
    shown = f"%{{x:,}} {tokens}: %{{text}}"
    return line(each.name, x, y, color, hover=shown, text=text, width=2.5, more={"mode": "lines"})


def _point(mark: Mark, scale: float) -> go.Scatter:
    return go.Scatter(
        x=[mark.at],
        y=[mark.value / scale],
        mode="markers",
        name=plotly_text(mark.text),
        showlegend=False,
        cliponaxis=False,
        marker={"size": 9, "color": "#ffffff", "line": {"width": 2, "color": "#1f2430"}},
        text=[flops(mark.value)],
        hovertemplate=hover(mark.text, "%{text}"),
    )


def _label(mark: Mark, row: int, stacked: bool, longest: int) -> dict:
    """Build the label of a mark above the figure, on its own row and on the side with more room."""
    at = mark.at if stacked else math.log10(max(mark.at, 1))
    share = at / (longest if stacked else math.log10(max(longest, 2)))
    return {
        "x": at,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 18 * row,
        "xanchor": "left" if share < 0.25 else "right" if share > 0.6 else "center",
        "text": plotly_text(mark.text),
        "showarrow": False,
        "font": {"size": 11},
    }


def times_figure(bars: Sequence[ComponentBar], words: Mapping[str, str]) -> go.Figure:
    """Draw each component's fraction of the FLOPs beside its fraction of the time. `words`: "work", "time", "share"."""
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": values([bar.spread[1] - bar.time for bar in bars]),
        "arrayminus": values([bar.time - bar.spread[0] for bar in bars]),
        "thickness": 1.5,
        "width": 3,
        "color": GRAY,
    }
    series = (
        ("work", [bar.work for bar in bars], {"color": _MUTED, "line": {"width": 1, "color": GRAY}}, {}),
        ("time", [bar.time for bar in bars], {"color": BLUE, "line": {"width": 1, "color": BLUE}}, whiskers),
    )
    traces = [
        go.Bar(
            y=[plotly_text(bar.name) for bar in bars],
            x=values(shares),
            orientation="h",
            name=plotly_text(words[key]),
            marker=marker,
            text=[plotly_text(bar.texts[index]) for bar in bars],
            textposition="none",
            hovertemplate=f"%{{y}}<br>{plotly_text(words[key])}: %{{x:.1%}}<br>%{{text}}<extra></extra>",
            error_x=error,
        )
        for index, (key, shares, marker, error) in enumerate(series)
    ]
    x = axis(words["share"], {"tickformat": ".0%", "rangemode": "tozero"})
    more = {"barmode": "group", "bargap": 0.3, "bargroupgap": 0.08, "legend": LEGEND | {"traceorder": "normal"}}
    return figure(traces, x, axis("", {"autorange": "reversed"}), height=70 + 38 * len(bars), more=more)
