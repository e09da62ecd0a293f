"""Figures of quantized weights: error by bits per weight, one attention map before and after, and a matrix's levels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, GREEN, ORANGE, axis, figure, powers
from viz.charts.heatmap import Panel
from viz.charts.lines import bars, line
from viz.labels import plotly_text
from viz.theme import HUES

FAMILIES = {"float": HUES[7], "int8": HUES[0], "few": HUES[4], "gguf": HUES[2]}
_SYMBOLS = {"float": "circle", "int8": "square", "few": "diamond", "gguf": "triangle-up"}
_HEIGHT, _NARROW = 440, 420
_PLOT = (330, 270)  # approximate size of the scatter plot in pixels
_SIDES = (
    "middle right",
    "middle left",
    "top right",
    "bottom right",
    "top left",
    "bottom left",
    "top center",
    "bottom center",
)
_BINS, _TAIL = 120, 0.001  # number of histogram bins; fraction of weights outside the histogram
_LINES = 40  # maximum number of levels drawn as lines


@dataclass(frozen=True)
class Dot:
    """A number format in the scatter plot of error by bits per weight."""

    name: str  # short label next to the point
    family: str  # a key of FAMILIES
    bits: float
    damage: float
    hover: Sequence[str]  # lines of the hover text


def scatter_figure(dots: Sequence[Dot], words: Mapping[str, str]) -> go.Figure:
    """Draw the error of each format by its bits per weight, on logarithmic axes. Formats without error are omitted.

    Keys of `words`: `bits`, `damage`, and the names of the families.
    """
    traces = []
    for family, color in FAMILIES.items():
        members = [dot for dot in dots if dot.family == family and dot.damage > 0]
        if not members:
            continue
        labels = _labels(members, dots)
        traces.append(
            go.Scatter(
                x=[dot.bits for dot in members],
                y=[dot.damage for dot in members],
                name=plotly_text(words[family]),
                mode="markers+text",
                text=[plotly_text(text) for text, _ in labels],
                textposition=[side for _, side in labels],
                textfont={"size": 11},
                cliponaxis=False,
                marker={"size": 11, "color": color, "symbol": _SYMBOLS[family]},
                hovertext=["<br>".join(plotly_text(line) for line in dot.hover) for dot in members],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    shown = [dot for dot in dots if dot.damage > 0]
    x = {"type": "log", "tickvals": [1.5, 2, 3, 4, 5, 6, 8, 12, 16, 32]}
    x["range"] = _range([dot.bits for dot in shown], 0.08, 0.2)
    y_range = _range([dot.damage for dot in shown], 0.1, 0.1)
    y = powers(*(10.0**end for end in y_range)) | {"range": y_range}
    return figure(traces, axis(words["bits"], x), axis(words["damage"], y), height=_HEIGHT, narrow=_NARROW)


def _range(values: Sequence[float], before: float, after: float) -> list[float]:
    """Compute the range of a logarithmic axis in powers of ten.

    `before` and `after` are the margins at the two ends, as fractions of the span of the values.
    """
    bounds = [math.log10(extreme(values)) for extreme in (min, max)] if values else [0.0, 1.0]
    span = max(bounds[1] - bounds[0], 0.3)
    return [bounds[0] - before * span, bounds[1] + after * span]


def _labels(members: Sequence[Dot], dots: Sequence[Dot]) -> list[tuple[str, str]]:
    """Return the label and text position of each of `members`, a subset of `dots`.

    A label is placed on the first side where it overlaps no point, no other label and no axis. If there is no such
    side, it
    is empty, since the name also appears on hover.
    """
    shown = [dot for dot in dots if dot.damage > 0]
    x, y = (_range([getattr(dot, name) for dot in shown], 0.08, 0.2) for name in ("bits", "damage"))
    points = {
        dot.name: (
            _PLOT[0] * (math.log10(dot.bits) - x[0]) / (x[1] - x[0]),
            _PLOT[1] * (math.log10(dot.damage) - y[0]) / (y[1] - y[0]),
        )
        for dot in shown
    }
    taken = [(left - 6, down - 6, left + 6, down + 6) for left, down in points.values()]
    labels = {}
    for dot in shown:
        boxes = {side: _box(points[dot.name], len(dot.name), side) for side in _SIDES}
        inside = {side: box for side, box in boxes.items() if min(box[:2]) >= 0}
        side = next((s for s, box in inside.items() if not any(_overlap(box, other) for other in taken)), None)
        labels[dot.name] = (dot.name, side) if side else ("", _SIDES[0])
        taken += [boxes[side]] if side else []
    return [labels[dot.name] for dot in members]


def _box(point: tuple[float, float], letters: int, side: str) -> tuple[float, float, float, float]:
    """Approximate the rectangle of a label of `letters` characters in pixels: left, bottom, right and top."""
    (vertical, horizontal), width = side.split(), 6.2 * letters
    left = point[0] + {"right": 9, "center": -width / 2, "left": -9 - width}[horizontal]
    bottom = point[1] + {"top": 7, "middle": -7, "bottom": -21}[vertical]
    return left, bottom, left + width, bottom + 14


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def levels_figure(weights: np.ndarray, values: np.ndarray, group: slice, words: Mapping[str, str]) -> go.Figure:
    """Draw a matrix before and after quantization: a histogram of its values above the step function of one group.

    weights and values [out, in]; `group` selects inputs of the first row. Keys of `words`: `value`, `count`, `before`,
    `after`, `rounded`, `steps`.
    """
    flat, after = weights.ravel(), values.ravel()
    limit = float(np.quantile(np.abs(flat), 1 - _TAIL)) or float(np.abs(flat).max()) or 1.0
    edges = np.linspace(-limit, limit, _BINS + 1)
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    counts = {"after": np.histogram(after, edges)[0], "before": np.histogram(flat, edges)[0]}
    hover = f"{plotly_text(words['value'])} %{{x:.4g}}: %{{y:,}}"
    steps_hover = f"%{{x:.5g}} → %{{y:.5g}}<extra>{plotly_text(words['steps'])}</extra>"
    w, v = weights[0, group], values[0, group]
    dots = {"mode": "markers", "marker": {"size": 6, "color": GREEN, "opacity": 0.8}, "hovertemplate": steps_hover}
    outline = {"mode": "lines", "line": {"color": ORANGE, "width": 2, "shape": "hvh"}}
    wide = {"width": 2 * limit / _BINS}
    traces = [
        bars(words["after"], middle, counts["after"], BLUE, hover=hover, more=wide),
        line(words["before"], middle, counts["before"], ORANGE, hover=hover, more=outline),
        line(words["steps"], w.tolist(), v, GREEN, hover="", more=dots | {"xaxis": "x2", "yaxis": "y2"}),
    ]
    levels = np.unique(v)
    more = {
        "xaxis2": axis(words["value"], {"anchor": "y2"}),
        "yaxis2": axis(words["rounded"], {"anchor": "x2", "domain": [0, 0.4], "showgrid": False}),
        "bargap": 0,
    }
    y = axis(words["count"], {"tickformat": ",~s", "rangemode": "tozero", "domain": [0.58, 1]})
    meta = {"shapes": [_level(float(each)) for each in levels] if len(levels) <= _LINES else []}
    x = axis(words["value"], {"anchor": "y"})
    return figure(traces, x, y, height=520, narrow=500, meta=meta, more=more)


def _level(y: float) -> dict:
    """Build the Plotly shape of a horizontal line at one level of the lower plot."""
    shape = {"type": "line", "line": {"width": 1, "color": GRAY}, "layer": "below"}
    return shape | {"xref": "paper", "yref": "y2", "x0": 0, "x1": 1, "y0": y, "y1": y}


def map_panels(before: np.ndarray, after: np.ndarray, names: tuple[str, str]) -> list[Panel]:
    """Build the panels of a head's attention map before and after quantization, with future keys blank.

    before [T, T] is cropped to the t tokens of after [t, t]; `names` are the titles.
    """
    future = np.triu(np.ones(after.shape, bool), 1)
    return [
        Panel(name, np.where(future, np.nan, z).astype(np.float32))
        for name, z in zip(names, (before[: len(after), : len(after)], after), strict=True)
    ]


def mean_moved(moved: np.ndarray) -> float:
    """Compute the mean distance over all heads. moved [L, H]"""
    return float(moved.mean())


def most_moved(moved: np.ndarray) -> tuple[int, int, float]:
    """Return the layer and head whose attention map changed most, and the distance. moved [L, H]"""
    layer, head = np.unravel_index(int(moved.argmax()), moved.shape)
    return int(layer), int(head), float(moved[layer, head])
