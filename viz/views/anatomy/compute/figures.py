"""FLOPs against context, and shares of work beside shares of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT = 420
POINTS = 97  # of a curve
UNITS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP")  # powers of 1000
COLOURS = {"attention": HUES[4], "projections": HUES[0], "mlp": HUES[2], "head": HUES[1], "rest": HUES[7]}
_GREY = "rgba(128,134,150,0.9)"
DARK = "rgba(40,46,60,0.75)"  # below a light dashed line
_QUIET = "rgba(128,134,150,0.35)"


@dataclass(frozen=True)
class Band:
    """FLOPs of one group of operations at every context."""

    key: str  # of COLOURS
    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Mark:
    """A context worth a line: where two are equal, or where the model's own context ends."""

    at: float
    text: str
    value: float | None = None  # where there is a point on the line
    strong: bool = True


@dataclass(frozen=True)
class Bar:
    """One component: its share of the work and of the time, and what its bar says."""

    name: str
    work: float
    time: float
    spread: tuple[float, float]  # the middle half of the repeats, as shares of the same time
    texts: tuple[str, str]  # of the two bars


def told_flops(n: float) -> str:
    """A number of operations in three digits, powers of 1000."""
    unit = _unit(n)
    value = n / 1000**unit
    return f"{n:,.0f} FLOP" if unit == 0 else f"{value:.{max(0, 2 - int(np.log10(value)))}f} {UNITS[unit]}"


def _unit(n: float) -> int:
    """Index into UNITS of the largest one that a number reaches, rounded."""
    unit = 0
    while unit < len(UNITS) - 1 and round(n / 1000**unit) >= 1000:
        unit += 1
    return unit


def contexts(longest: int, logarithmic: bool) -> list[int]:
    """Whole numbers of tokens from 1 to the longest, evenly spaced on the axis."""
    spaced = np.geomspace(1, longest, POINTS) if logarithmic else np.linspace(1, longest, POINTS)
    return np.unique(spaced.round().astype(int)).tolist()


def work_figure(
    x: Sequence[int], bands: Sequence[Band], marks: Sequence[Mark], stacked: bool, said: Mapping[str, str]
) -> str:
    """FLOPs against context, stacked on linear axes or as lines on logarithmic ones; JSON.

    `said`: "context", "axis", "tokens".
    """
    highest = max(sum(values) for values in zip(*(band.values for band in bands), strict=True))
    unit = _unit(highest) if stacked else 0
    scale = 1000**unit
    traces = [_curve(x, band, scale, stacked, said) for band in bands if max(band.values) > 0]
    traces += [_point(mark, scale) for mark in marks if mark.value is not None]
    layout = frame_layout(
        {"height": HEIGHT, "narrow": HEIGHT, "shapes": [line for mark in marks for line in _lines(mark)]}
    )
    axis = {"automargin": True, "zeroline": False}
    kind = {} if stacked else {"type": "log"}
    y = {"rangemode": "tozero", "tickformat": ",~r"} if stacked else {"exponentformat": "power", "dtick": 2}
    span = [0, x[-1]] if stacked else [0, float(np.log10(x[-1]))]
    name = plotly_text(said["axis"])
    layout |= {
        "xaxis": axis
        | kind
        | {"title": {"text": plotly_text(said["context"]), "standoff": 8}, "range": span, "tickformat": ",~r"},
        "yaxis": axis | kind | y | {"title": {"text": f"{name} ({UNITS[unit]})", "standoff": 8}},
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        "annotations": [_label(mark, place, stacked, x[-1]) for place, mark in enumerate(marks)],
        "margin": layout["margin"] | {"t": 18 * len(marks) + 8},
    }
    return go.Figure(traces, layout).to_json()


def _curve(x: Sequence[int], band: Band, scale: int, stacked: bool, said: Mapping[str, str]) -> go.Scatter:
    label, colour = plotly_text(band.name), COLOURS[band.key]
    more = (
        {"stackgroup": "all", "line": {"width": 0.5, "color": colour}, "fillcolor": colour}
        if stacked
        else {"line": {"width": 2.5, "color": colour}}
    )
    values = [value / scale for value in band.values] if stacked else [value or None for value in band.values]
    return go.Scatter(
        x=list(x),
        y=values,
        name=label,
        mode="lines",
        text=[told_flops(value) for value in band.values],
        hovertemplate=f"{label}<br>%{{x:,}} {plotly_text(said['tokens'])}: %{{text}}<extra></extra>",
        **more,
    )


def _point(mark: Mark, scale: int) -> go.Scatter:
    label = plotly_text(mark.text)
    return go.Scatter(
        x=[mark.at],
        y=[mark.value / scale],
        mode="markers",
        name=label,
        showlegend=False,
        cliponaxis=False,
        marker={"size": 9, "color": "#ffffff", "line": {"width": 2, "color": "#1f2430"}},
        text=[told_flops(mark.value)],
        hovertemplate=f"{label}<br>%{{text}}<extra></extra>",
    )


def _lines(mark: Mark) -> list[dict]:
    """A light line on a dark one, so that it is seen on the bands and beside them, on light and on dark."""
    return upright(mark.at, "dash" if mark.strong else "dot")


def upright(at: float, dash: str) -> list[dict]:
    """The shapes of a line from bottom to top at a place on the axis of the contexts."""
    place = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return [
        place | {"line": {"width": 2.5, "color": DARK}},
        place | {"line": {"width": 1.5, "color": "#ffffff", "dash": dash}},
    ]


def _label(mark: Mark, place: int, stacked: bool, longest: int) -> dict:
    """Its text above the figure, one row each, on the side with more room."""
    share = mark.at / longest if stacked else np.log10(max(mark.at, 1)) / np.log10(max(longest, 2))
    anchor = "left" if share < 0.25 else "right" if share > 0.6 else "center"
    return {
        "x": mark.at if stacked else float(np.log10(max(mark.at, 1))),
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 18 * place,
        "xanchor": anchor,
        "text": plotly_text(mark.text),
        "showarrow": False,
        "font": {"size": 11},
    }


def times_figure(bars: Sequence[Bar], said: Mapping[str, str]) -> str:
    """Each component's share of the work beside its share of the time; JSON. `said`: "work", "time", "share"."""
    names = [plotly_text(bar.name) for bar in bars]
    time = [bar.time for bar in bars]
    low, high = [bar.time - bar.spread[0] for bar in bars], [bar.spread[1] - bar.time for bar in bars]
    rows = (
        ("work", [bar.work for bar in bars], _QUIET, {}),
        (
            "time",
            time,
            HUES[0],
            {
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": high,
                    "arrayminus": low,
                    "thickness": 1.5,
                    "width": 3,
                    "color": _GREY,
                }
            },
        ),
    )
    traces = [
        go.Bar(
            y=names,
            x=values,
            orientation="h",
            name=plotly_text(said[key]),
            marker={"color": colour, "line": {"width": 1, "color": _GREY if key == "work" else colour}},
            text=[plotly_text(bar.texts[place]) for bar in bars],
            textposition="none",
            hovertemplate=f"%{{y}}<br>{plotly_text(said[key])}: %{{x:.1%}}<br>%{{text}}<extra></extra>",
            **more,
        )
        for place, (key, values, colour, more) in enumerate(rows)
    ]
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": 70 + 38 * len(bars), "narrow": 70 + 38 * len(bars)}) | {
        "barmode": "group",
        "bargap": 0.3,
        "bargroupgap": 0.08,
        "xaxis": axis
        | {"title": {"text": plotly_text(said["share"]), "standoff": 8}, "tickformat": ".0%", "rangemode": "tozero"},
        "yaxis": axis | {"autorange": "reversed"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    }
    return go.Figure(traces, layout).to_json()
