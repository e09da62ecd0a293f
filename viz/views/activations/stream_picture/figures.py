"""The picture of the residual stream: tokens on two principal components, and their paths through the layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, axis, token_names
from viz.labels import plotly_text, tick_text
from viz.numbers import percent
from viz.theme import HUES, RAMPS, colorscale, frame_layout

MOST_LABELS = 28  # maximum number of tokens with a label at each point
_HEIGHT, _NARROW = 560, 440  # heights in pixels on a wide and on a narrow page
_HOVER = "%{text}<br>%{x:.4g}, %{y:.4g}"


@dataclass(frozen=True, eq=False)
class Drawn:
    """The data of the figure: a projection, the selected layer and axes, and the tokens with a path."""

    coordinates: np.ndarray  # [L + 1, T, components]
    shares: Sequence[float]  # fraction of the variance that each component explains
    start: int  # position of the first token in `coordinates`
    layer: int
    axes: tuple[int, int]  # components of the x and y axes
    paths: Sequence[int]  # positions of tokens with a path


def space_figure(drawn: Drawn, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw every token at one layer as a point, and the paths of the tokens in `drawn.paths` through all layers.

    `pieces` are the strings of all prompt tokens. The axes cover all layers, so they stay fixed while the layer
    changes. `words`: "axis", "at_layer", "at_end", "position".
    """
    x, y = (drawn.coordinates[:, :, axis] for axis in drawn.axes)  # [L + 1, T]
    traces = [trace for n, at in enumerate(drawn.paths) for trace in _path(drawn, at, n, pieces, words)]
    traces.append(_points(drawn, pieces, words))
    stops = {name: stops[2:] for name, stops in RAMPS.items()}  # without those close to the page background
    scales = {name: colorscale(each, "linear") for name, each in stops.items()}
    title = {"text": plotly_text(words["position"]), "side": "right"}
    bar = {"thickness": 10, "len": 0.7, "outlinewidth": 0, "title": title}
    last = max(len(pieces) - 1, 1)
    layout = frame_layout({"scales": scales, "height": _HEIGHT, "narrow": _NARROW}) | {
        "coloraxis": {"cmin": 0, "cmax": last, "colorbar": bar},
        "xaxis": _axis(drawn, 0, x, words),
        "yaxis": _axis(drawn, 1, y, words),
        "legend": LEGEND | {"bgcolor": "rgba(0,0,0,0)"},
        "uirevision": f"{drawn.axes} {drawn.shares}",  # keeps the zoom while the layer changes
    }
    return go.Figure(traces, layout)


def _axis(drawn: Drawn, which: int, values: np.ndarray, words: Mapping[str, str]) -> dict:
    """Build an axis with room for the values of all layers; its title gives the component's explained variance."""
    component, low, high = drawn.axes[which], float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 1.0
    title = words["axis"].format(n=component + 1, share=percent(drawn.shares[component]))
    return axis(title, {"range": [low - room, high + room], "nticks": 7})


def _points(drawn: Drawn, pieces: Sequence[str], words: Mapping[str, str]) -> go.Scatter:
    """Draw all tokens at the selected layer, colored by position."""
    x, y = (drawn.coordinates[drawn.layer, :, axis] for axis in drawn.axes)
    T, start = len(x), drawn.start
    beside = {"mode": "markers+text", "texttemplate": "%{customdata.label}", "textposition": "top center"}
    return go.Scatter(
        x=x,
        y=y,
        text=token_names(pieces)[start:],
        name=plotly_text(words["at_layer"].format(n=drawn.layer)),
        customdata=[{"tokens": [at], "label": tick_text(pieces[at])} for at in range(start, start + T)],
        showlegend=False,
        marker={
            "size": 9 if T <= 100 else 6,
            "color": list(range(start, start + T)),
            "coloraxis": "coloraxis",
            "line": {"width": 0.5 if T <= 100 else 0, "color": HUES[7]},
        },
        hovertemplate=_HOVER,
        **(beside if T <= MOST_LABELS else {"mode": "markers"}),
    )


def _path(drawn: Drawn, at: int, n: int, pieces: Sequence[str], words: Mapping[str, str]) -> list[go.Scatter]:
    """Draw one token's path through all layers: a circle at its start, a square at its end, a ring at `drawn.layer`."""
    row, hue = at - drawn.start, HUES[n % len(HUES)]
    x, y = (drawn.coordinates[:, row, axis] for axis in drawn.axes)  # [L + 1]
    last = len(x) - 1
    name = f"{at} {tick_text(pieces[at])}"
    layers = [words["at_layer"].format(n=layer) for layer in range(last)] + [words["at_end"]]
    line = go.Scatter(
        x=x,
        y=y,
        text=[plotly_text(layer) for layer in layers],
        name=name,
        mode="lines+markers",
        line={"color": hue, "width": 2},
        marker={
            "symbol": ["circle-open", *["circle"] * (last - 1), "square"],
            "size": [11, *[4] * (last - 1), 10],
            "color": hue,
            "opacity": 1,
            "line": {"width": [2, *[0] * last], "color": hue},
        },
        customdata=[{"tokens": [at]}] * (last + 1),
        hovertemplate=f"{name}<br>{_HOVER}",
    )
    now = go.Scatter(
        x=[x[drawn.layer]],
        y=[y[drawn.layer]],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        marker={"symbol": "circle-open", "size": 17, "color": hue, "line": {"width": 2.5}},
    )
    return [line, now]
