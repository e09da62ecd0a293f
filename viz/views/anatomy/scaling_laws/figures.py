"""Figures of scaling laws: loss vs. compute, tokens vs. parameters, the cost of other sizes, and own runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import LOG, axis, figure, powers
from viz.charts.lines import line
from viz.labels import plotly_text
from viz.numbers import count, nats, number, power
from viz.theme import HUES, RAMP, ramp_at

HEIGHT, NARROW = 440, 420
MOST_LOSS = 5.0  # upper end of the loss axis
COLORS = {
    "kaplan": HUES[3],
    "hoffmann1": HUES[2],
    "hoffmann2": HUES[6],
    "hoffmann3": HUES[5],
    "hoffmann3_source": HUES[0],
    "besiroglu": HUES[4],
}
DASHES = {"hoffmann2": "dash", "hoffmann3": "dot", "kaplan": "dashdot"}
GRAY = "rgba(128,134,150,0.75)"


@dataclass(frozen=True)
class PlotLine:
    """One line of a figure, with its color."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    dash: str = "solid"
    width: float = 2.5


@dataclass(frozen=True)
class Dots:
    """Points with a hover text each. `labeled` lists those whose names are drawn beside them."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str]
    color: str
    symbol: str = "circle"
    labeled: tuple[tuple[int, str], ...] = ()  # (index, side of the name: right, left, above or below)


def size_color(index: int, n: int) -> str:
    """Return the color of one of `n` model sizes, darker for larger ones. All are readable on light and dark pages."""
    return ramp_at(RAMP[3:7], index / max(1, n - 1))


def _lines(lines: Sequence[PlotLine], text: Callable[[float, float], str], *, named: bool = True) -> list[go.Scatter]:
    """Draw lines whose points show `text(x, y)` on hover. `named`: whether the legend lists them."""
    return [
        line(
            each.name,
            each.x,
            each.y,
            each.color,
            hover="%{text}",
            text=[plotly_text(text(x, y)) for x, y in zip(each.x, each.y, strict=True)],
            dash=each.dash,
            width=each.width,
            more={"mode": "lines", "showlegend": named},
        )
        for each in lines
    ]


def _loss_text(x: float, y: float) -> str:
    return f"{power(x)} FLOPs: {nats(y)}"


def _dots(dots: Dots) -> go.Scatter:
    return go.Scatter(
        x=list(dots.x),
        y=list(dots.y),
        name=plotly_text(dots.name),
        mode="markers",
        text=[plotly_text(text) for text in dots.texts],
        hovertemplate="%{text}<extra></extra>",
        marker={
            "size": 9 if dots.symbol == "circle" else 14,
            "color": dots.color,
            "symbol": dots.symbol,
            "line": {"width": 1, "color": "rgba(255,255,255,0.8)"},
        },
    )


def _log(title: str, bounds: tuple[float, float] | None = None, more: Mapping[str, object] | None = None) -> dict:
    """Build a logarithmic axis, limited to `bounds` if given."""
    shown = {"range": [math.log10(each) for each in bounds]} if bounds else {}
    return axis(title, {"type": "log", **shown, **(more or {})})


def _figure(traces: list[go.Scatter], x: dict, y: dict, notes: Sequence[dict] = (), narrow: int = NARROW) -> go.Figure:
    more = {"annotations": list(notes), "hovermode": "closest"}
    return figure(traces, x, y, height=HEIGHT, narrow=narrow, more=more)


def loss_figure(sizes: Sequence[PlotLine], best: Sequence[PlotLine], plan: Dots, words: Mapping[str, str]) -> go.Figure:
    """Draw loss as a function of compute: one labeled line per model size, the best over all sizes, and the plan.

    `words`: "x", "y".
    """
    lines = [*sizes, *best]
    traces = [*_lines(sizes, _loss_text, named=False), *_lines(best, _loss_text)]
    beside = {"xanchor": "left", "yanchor": "bottom", "font": {"size": 11}}
    notes = [_note(each.x[0], None, each.name, {"y": each.y[0]} | beside) for each in sizes]
    least = min(min(each.y) for each in lines if each.y)
    xs = [x for each in lines for x in each.x]
    x = _log(words["x"], (min(xs), max(xs)), powers(min(xs), max(xs), 6))
    y = axis(words["y"], {"range": [min(least, *plan.y) - 0.1, MOST_LOSS]})
    return _figure([*traces, _dots(plan)], x, y, notes)


def _note(x: float, y: float | None, text: str, more: Mapping[str, object]) -> dict:
    """Build a text label on logarithmic axes. If `y` is None, `more` sets the y coordinate."""
    height = {} if y is None else {"y": math.log10(y)}
    return {"x": math.log10(x), "text": plotly_text(text), "showarrow": False} | height | more


_BESIDE = {
    "right": {"xanchor": "left", "xshift": 7},
    "left": {"xanchor": "right", "xshift": -7},
    "above": {"xanchor": "center", "yanchor": "bottom", "yshift": 5},
    "below": {"xanchor": "center", "yanchor": "top", "yshift": -5},
}


def plane_figure(
    contours: Sequence[PlotLine],
    lines: Sequence[PlotLine],
    dots: Sequence[Dots],
    bounds: tuple,
    words: Mapping[str, str],
) -> go.Figure:
    """Draw the plane of tokens and parameters: contours of equal loss, the optimum under every law, and models.

    `bounds`: limits of x and of y. `words`: "x", "y".
    """

    def text(x: float, y: float) -> str:
        return f"N {count(x)}, D {count(y)}"

    small = {"xanchor": "right", "yanchor": "bottom", "font": {"size": 11}, "opacity": 0.75}
    notes = [_note(each.x[-1], each.y[-1], each.name.split(" ")[0], small) for each in contours if each.x]
    notes += [
        _note(each.x[at], each.y[at], each.texts[at].split(":")[0], _BESIDE[side] | {"font": {"size": 11}})
        for each in dots
        for at, side in each.labeled
    ]
    traces = [*_lines(contours, text, named=False), *_lines(lines, text), *map(_dots, dots)]
    x, y = (_log(words[name], each, powers(*each)) for name, each in zip("xy", bounds, strict=True))
    return _figure(traces, x, y, notes, 600)


def price_figure(lines: Sequence[PlotLine], limit: float, words: Mapping[str, str]) -> go.Figure:
    """Draw compute relative to the minimum as a function of model size relative to the optimum. `words`: "x", "y"."""
    traces = _lines(lines, lambda x, y: f"N/N* {number(x)}: {number(y)} ×")
    xs = [x for each in lines for x in each.x]
    x = _log(words["x"], (min(xs), max(xs)), {"tickvals": [0.1, 0.2, 0.5, 1, 2, 5]})
    y = _log(words["y"], (0.95, limit), {"tickvals": [1, 1.2, 1.5, 2, 3, 5, 10]})
    return _figure(traces, x, y)


def runs_figure(
    runs: Sequence[tuple[PlotLine, PlotLine | None]], ends: PlotLine | None, words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss of each run as a function of compute: measured points, and the power law fitted to them.

    `ends`: the power law across the runs. `words`: "x", "y".
    """
    traces = []
    for points, law in runs:
        style = {"mode": "markers", "marker": {"size": 7, "color": points.color}}
        text = [_loss_text(x, y) for x, y in zip(points.x, points.y, strict=True)]
        traces.append(line(points.name, points.x, points.y, points.color, hover="%{text}", text=text, more=style))
        traces += _lines([law], _loss_text, named=False) if law else []
    traces += _lines([ends], _loss_text) if ends else []
    xs = [x for trace in traces for x in trace.x]
    x = _log(words["x"], None, powers(min(xs, default=1), max(xs, default=1)))
    return _figure(traces, x, _log(words["y"], None, LOG | {"nticks": 6}))
