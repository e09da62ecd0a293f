"""What a cache of keys and values holds and saves: bytes by context, and milliseconds a token with and without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT = 380
UNITS = ("B", "kB", "MB", "GB", "TB")  # powers of 1000
_POINTS = 65  # of a line
BLUE, ORANGE, GREY = HUES[0], HUES[4], "rgba(128,134,150,0.9)"


@dataclass(frozen=True)
class Growth:
    """A cache that grows in proportion to the context, or something of a fixed size beside it."""

    name: str
    nbytes: int  # at the longest context
    dash: str = "solid"
    colour: str = BLUE
    fixed: bool = False


@dataclass(frozen=True)
class Timed:
    """One way to make a token: contexts, and the median and the two quartiles of the seconds at each."""

    name: str
    colour: str
    lengths: Sequence[int]
    seconds: Sequence[tuple[float, float, float]]


def told_bytes(nbytes: int) -> str:
    """A size in three digits, powers of 1000."""
    unit = _unit(nbytes)
    value = nbytes / 1000**unit
    return f"{nbytes:,} B" if unit == 0 else f"{value:.{max(0, 2 - int(np.log10(value)))}f} {UNITS[unit]}"


def told_ms(seconds: float) -> str:
    """Milliseconds in three digits."""
    ms = 1000 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _unit(nbytes: int) -> int:
    """Index into UNITS of the largest one that a size reaches, rounded."""
    unit = 0
    while unit < len(UNITS) - 1 and round(nbytes / 1000**unit, 0) >= 1000:
        unit += 1
    return unit


def bytes_figure(grown: Sequence[Growth], longest: int, here: int, said: Mapping[str, str]) -> str:
    """Bytes against context, up to the longest one, and a mark at `here` on the first line; JSON.

    `said`: "context", "size", "tokens", "here".
    """
    unit = _unit(max(each.nbytes for each in grown))
    scale, name = 1000**unit, UNITS[unit]
    x = np.unique(np.linspace(0, longest, _POINTS).round().astype(int))
    traces = []
    for each in grown:
        values = np.full(len(x), each.nbytes) if each.fixed else each.nbytes / longest * x
        label = plotly_text(each.name)
        traces.append(
            go.Scatter(
                x=x.tolist(),
                y=(values / scale).tolist(),
                name=label,
                mode="lines",
                line={"color": each.colour, "width": 2.5, "dash": each.dash},
                text=[told_bytes(round(value)) for value in values],
                hovertemplate=f"{label}<br>%{{x:,}} {plotly_text(said['tokens'])}: %{{text}}<extra></extra>",
            )
        )
    at = grown[0].nbytes / longest * here
    traces.append(
        go.Scatter(
            x=[here],
            y=[at / scale],
            name=plotly_text(said["here"]),
            mode="markers",
            text=[told_bytes(round(at))],
            cliponaxis=False,
            marker={"size": 10, "color": ORANGE},
            hovertemplate=f"{plotly_text(said['here'])}<br>%{{x:,}}: %{{text}}<extra></extra>",
        )
    )
    return _figure(traces, said["context"], f"{said['size']} ({name})", {"range": [0, longest]})


def times_figure(timed: Sequence[Timed], said: Mapping[str, str]) -> str:
    """Milliseconds a token against context, whiskers over the middle half of the repeats; JSON.

    `said`: "context", "time", "tokens", "spread".
    """
    traces = []
    for way in timed:
        medians = [1000 * each[0] for each in way.seconds]
        label = plotly_text(way.name)
        hovers = [
            f"{label}<br>{length:,} {plotly_text(said['tokens'])}: {told_ms(median)} ms<br>"
            f"{plotly_text(said['spread'])}: {told_ms(least)}–{told_ms(most)} ms"
            for length, (median, least, most) in zip(way.lengths, way.seconds, strict=True)
        ]
        traces.append(
            go.Scatter(
                x=list(way.lengths),
                y=medians,
                name=label,
                mode="lines+markers",
                line={"color": way.colour, "width": 2.5},
                marker={"size": 8, "color": way.colour},
                text=[f"{told_ms(least)}–{told_ms(most)}" for _, least, most in way.seconds],
                hovertext=hovers,
                hovertemplate="%{hovertext}<extra></extra>",
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "thickness": 1.5,
                    "width": 4,
                    "color": way.colour,
                    "array": [1000 * (most - median) for median, _, most in way.seconds],
                    "arrayminus": [1000 * (median - least) for median, least, _ in way.seconds],
                },
            )
        )
    ticks = _ticks(max(timed, key=lambda way: len(way.lengths)).lengths)
    return _figure(traces, said["context"], said["time"], {"tickvals": ticks, "rangemode": "tozero"})


def _ticks(lengths: Sequence[int]) -> list[int]:
    """Contexts with room for a label between them on a linear axis."""
    return [length for length in lengths if length >= max(lengths) / 10]


def _figure(traces: list[go.Scatter], x: str, y: str, more: Mapping[str, object]) -> str:
    """`more` of the axis of the contexts."""
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": HEIGHT, "narrow": HEIGHT}) | {
        "xaxis": axis | {"title": {"text": plotly_text(x), "standoff": 8}, "tickformat": ","} | more,
        "yaxis": axis | {"title": {"text": plotly_text(y), "standoff": 8}, "rangemode": "tozero", "tickformat": ",~r"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(traces, layout).to_json()
