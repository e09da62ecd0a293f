"""Figures of the KV cache: bytes by context, and milliseconds a token with and without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, ORANGE, axis, figure
from viz.charts.lines import line, values
from viz.labels import plotly_text
from viz.numbers import milliseconds, size, size_unit, whole

HEIGHT = 380
_POINTS = 65  # of a line


@dataclass(frozen=True)
class Growth:
    """A cache that grows in proportion to the context, or something of a fixed size beside it."""

    name: str
    nbytes: int  # at the longest context
    dash: str = "solid"
    color: str = BLUE
    fixed: bool = False


@dataclass(frozen=True)
class Timed:
    """One way to make a token: contexts, and the median and the two quartiles of the seconds at each."""

    name: str
    color: str
    lengths: Sequence[int]
    seconds: Sequence[tuple[float, float, float]]


def bytes_figure(grown: Sequence[Growth], longest: int, here: int, words: Mapping[str, str]) -> go.Figure:
    """Return the bytes against context, up to the longest one, and a mark at `here` on the first line.

    `words`: "context", "size", "tokens", "here".
    """
    scale, unit = size_unit(max(each.nbytes for each in grown))
    x = np.unique(np.linspace(0, longest, _POINTS).round().astype(int))
    hover = f"%{{x:,}} {plotly_text(words['tokens'])}: %{{text}}"
    traces = []
    for each in grown:
        nbytes = np.full(len(x), each.nbytes) if each.fixed else each.nbytes / longest * x
        texts, only = [size(round(value)) for value in nbytes], {"mode": "lines"}
        lengths, look = x.tolist(), {"dash": each.dash, "width": 2.5}
        traces.append(line(each.name, lengths, nbytes / scale, each.color, hover=hover, text=texts, more=only, **look))
    at = grown[0].nbytes / longest * here
    dot = {"mode": "markers", "marker": {"size": 10, "color": ORANGE}, "cliponaxis": False}
    template = "%{x:,}: %{text}"
    traces.append(line(words["here"], [here], [at / scale], ORANGE, hover=template, text=[size(round(at))], more=dot))
    return _figure(traces, words["context"], f"{words['size']} ({unit})", {"range": [0, longest]})


def times_figure(timed: Sequence[Timed], words: Mapping[str, str]) -> go.Figure:
    """Return the milliseconds a token against context, whiskers over the middle half of the repeats.

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
    """Return the contexts with room for a label between them on a linear axis."""
    return [length for length in lengths if length >= max(lengths) / 10]


def _figure(traces: Sequence[go.Scatter], x: str, y: str, more: Mapping[str, object]) -> go.Figure:
    """`more` of the axis of the contexts."""
    across = axis(x, {"tickformat": ",", **more})
    return figure(traces, across, axis(y, {"rangemode": "tozero", "tickformat": ",~r"}), height=HEIGHT)
