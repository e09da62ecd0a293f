"""The picture of the residual stream: tokens as points in two principal components, and paths through the layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import MAX_LABEL, plotly_text, shorten, visible
from viz.theme import HUES, RAMPS, colorscale, frame_layout

MOST_LABELS = 28  # tokens whose text stands beside their point
_HEIGHT, _NARROW = 560, 440  # pixels

Said = Mapping[str, str]  # the words of the section "space", by their short keys


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is drawn of a projection."""

    coordinates: np.ndarray  # [L + 1, T, components]
    shares: Sequence[float]  # of the variance, one a component
    start: int  # the position of the first token in it
    layer: int
    axes: tuple[int, int]  # components across and up
    paths: Sequence[int]  # positions whose path through the layers is drawn


def percent(share: float) -> str:
    """A share as a short text, 34.2 %, that no line breaks."""
    return f"{100 * share:.1f}\u00a0%"


def space_figure(drawn: Drawn, pieces: Sequence[str], said: Said) -> go.Figure:
    """Every token at one layer as a point; for some tokens the path from the first layer to the last.

    `pieces` are those of the whole prompt. The axes hold all layers, so that they stay where they are while the layer
    changes.
    """
    x, y = (drawn.coordinates[:, :, axis] for axis in drawn.axes)  # [L + 1, T]
    labels = [f"{at} {shorten(visible(piece), 40)}" for at, piece in enumerate(pieces)][drawn.start :]
    traces = [trace for n, at in enumerate(drawn.paths) for trace in _path(drawn, at, n, pieces, said)]
    traces.append(_points(drawn, labels, pieces, said))
    stops = {name: stops[2:] for name, stops in RAMPS.items()}  # without what hardly differs from the page
    found = {name: colorscale(each, "linear") for name, each in stops.items()}
    last = max(len(pieces) - 1, 1)
    bar = {
        "thickness": 10,
        "len": 0.7,
        "outlinewidth": 0,
        "title": {"text": plotly_text(said["position"]), "side": "right"},
    }
    layout = frame_layout({"scales": found, "height": _HEIGHT, "narrow": _NARROW}) | {
        "coloraxis": {"colorscale": found["light"], "cmin": 0, "cmax": last, "colorbar": bar},
        "xaxis": _axis(drawn, 0, x, said),
        "yaxis": _axis(drawn, 1, y, said),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)"},
        "uirevision": f"{drawn.axes} {drawn.shares}",  # a zoom stays while the layer changes
    }
    return go.Figure(traces, layout)


def _axis(drawn: Drawn, which: int, values: np.ndarray, said: Said) -> dict:
    """An axis with room for the values of all layers, its component and its share of the variance named."""
    axis, low, high = drawn.axes[which], float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 1.0
    text = said["axis"].format(n=axis + 1, share=percent(drawn.shares[axis]))
    return {
        "title": {"text": plotly_text(text), "standoff": 8},
        "range": [low - room, high + room],
        "zeroline": False,
        "automargin": True,
        "nticks": 7,
    }


def _points(drawn: Drawn, labels: Sequence[str], pieces: Sequence[str], said: Said) -> go.Scatter:
    """All tokens at the chosen layer, coloured by position."""
    x, y = (drawn.coordinates[drawn.layer, :, axis] for axis in drawn.axes)
    T, name = len(labels), plotly_text(said["at_layer"].format(n=drawn.layer))
    few = {"mode": "markers+text", "texttemplate": "%{customdata.label}", "textposition": "top center"}
    short = [plotly_text(shorten(visible(piece), MAX_LABEL)) for piece in pieces[drawn.start :]]
    return go.Scatter(
        x=x,
        y=y,
        text=[plotly_text(label) for label in labels],
        name=name,
        customdata=[{"tokens": [drawn.start + n], "label": short[n]} for n in range(T)],
        showlegend=False,
        marker={
            "size": 9 if T <= 100 else 6,
            "color": list(range(drawn.start, drawn.start + T)),
            "coloraxis": "coloraxis",
            "line": {"width": 0.5 if T <= 100 else 0, "color": HUES[7]},
        },
        hovertemplate="%{text}<br>%{x:.4g}, %{y:.4g}",
        **(few if T <= MOST_LABELS else {"mode": "markers"}),
    )


def _path(drawn: Drawn, at: int, n: int, pieces: Sequence[str], said: Said) -> list[go.Scatter]:
    """One token through all layers: a line, a ring where it starts, a square where it ends, a ring around it now."""
    row, hue = at - drawn.start, HUES[n % len(HUES)]
    x, y = (drawn.coordinates[:, row, axis] for axis in drawn.axes)  # [L + 1]
    last = len(x) - 1
    name = plotly_text(f"{at} {shorten(visible(pieces[at]), MAX_LABEL)}")
    symbols = ["circle-open", *["circle"] * (last - 1), "square"]
    sizes = [11, *[4] * (last - 1), 10]
    layers = [said["at_layer"].format(n=layer) for layer in range(last)] + [said["at_end"]]
    line = go.Scatter(
        x=x,
        y=y,
        text=[plotly_text(layer) for layer in layers],
        name=name,
        mode="lines+markers",
        line={"color": hue, "width": 2},
        marker={
            "symbol": symbols,
            "size": sizes,
            "color": hue,
            "opacity": 1,
            "line": {"width": [2, *[0] * last], "color": hue},
        },
        customdata=[{"tokens": [at]}] * (last + 1),
        hovertemplate=f"{name}<br>%{{text}}<br>%{{x:.4g}}, %{{y:.4g}}",
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
