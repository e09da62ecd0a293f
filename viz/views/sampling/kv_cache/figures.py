"""Figures of the KV cache: bytes by context length, and milliseconds per token with and without the cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, ORANGE, axis, figure
from viz.charts.lines import line, values
from viz.labels import plotly_text
from viz.numbers import milliseconds, size, size_unit, whole

HEIGHT = 380
_POINTS = 65  # number of points per line


@dataclass(frozen=True)
class Growth:
    """One line of the bytes figure: a cache size proportional to the context length, or a fixed size for comparison."""

    name: str
    nbytes: int  # bytes at the longest context length
    dash: str = "solid"
    color: str = BLUE
    fixed: bool = False


@dataclass(frozen=True)
class Timed:
    """The seconds per token of one way to generate: median and both quartiles at each context length."""

    name: str
    color: str
    lengths: Sequence[int]
    seconds: Sequence[tuple[float, float, float]]


def bytes_figure(curves: Sequence[Growth], longest: int, length: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the bytes against the context length, up to `longest`, with a mark at `length` on the first line.

    `words`: "context", "size", "tokens", "here".
    """
    scale, unit = size_unit(max(each.nbytes for each in curves))
    x = np.unique(np.linspace(0, longest, _POINTS).round().astype(int))
    hover = f"%{{x:,}} {plotly_text(words['tokens'])}: %{{text}}"
    traces = []
    for each in curves:
        nbytes = np.full(len(x), each.nbytes) if each.fixed else each.nbytes / longest * x
        texts, mode = [size(round(value)) for value in nbytes], {"mode": "lines"}
        lengths, look = x.tolist(), {"dash": each.dash, "width": 2.5}
        traces.append(line(each.name, lengths, nbytes / scale, each.color, hover=hover, text=texts, more=mode, **look))
    marked = curves[0].nbytes / longest * length
    dot = {"mode": "markers", "marker": {"size": 10, "color": ORANGE}, "cliponaxis": False}
    template = "%{x:,}: %{text}"
    traces.append(
        line(words["here"], [length], [marked / scale], ORANGE, hover=template, text=[size(round(marked))], more=dot)
    )
    return _figure(traces, words["context"], f"{words['size']} ({unit})", {"range": [0, longest]})


def times_figure(timed: Sequence[Timed], words: Mapping[str, str]) -> go.Figure:
    """Draw the milliseconds per token against the context length, with whiskers between the quartiles.

    `words`: "context", "time", "tokens", "spread".
    """
    traces = []
    for way in timed:
        medians = [1000 * each[0] for each in way.seconds]
        spreads = [f"{milliseconds(low)}–{milliseconds(high)}" for _, low, high in way.seconds]
        hovers = [
            f"{plotly_text(way.name)}<br>{whole(length)} {plotly_text(words['tokens'])}: {milliseconds(median)} ms<br>"
            f"{plotly_text(words['spread'])}: {spread} ms"
            for length, (median, _, _), spread in zip(way.lengths, way.seconds, spreads, strict=True)
        ]
        more = {
            "marker": {"size": 8, "color": way.color},
            "hovertext": hovers,
            "hovertemplate": "%{hovertext}<extra></extra>",
            "error_y": {
                "type": "data",
                "symmetric": False,
                "thickness": 1.5,
                "width": 4,
                "color": way.color,
                "array": values([1000 * (high - median) for median, _, high in way.seconds]),
                "arrayminus": values([1000 * (median - low) for median, low, _ in way.seconds]),
            },
        }
        traces.append(line(way.name, way.lengths, medians, way.color, hover="", text=spreads, width=2.5, more=more))
    ticks = _ticks(max(timed, key=lambda way: len(way.lengths)).lengths)
    return _figure(traces, words["context"], words["time"], {"tickvals": ticks, "rangemode": "tozero"})


def _ticks(lengths: Sequence[int]) -> list[int]:
    """Select the context lengths whose labels do not overlap on a linear axis."""
    return [length for length in lengths if length >= max(lengths) / 10]


def _figure(traces: Sequence[go.Scatter], x: str, y: str, more: Mapping[str, object]) -> go.Figure:
    """Draw the traces over an axis of context lengths. `more`: further axis settings."""
    across = axis(x, {"tickformat": ",", **more})
    return figure(traces, across, axis(y, {"rangemode": "tozero", "tickformat": ",~r"}), height=HEIGHT)
