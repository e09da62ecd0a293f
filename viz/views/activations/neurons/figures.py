"""Pictures of MLP neurons: who is active where, the activation function with what it is given, and all layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from viz.labels import axis_name, plotly_text, shorten, tick_text, visible
from viz.theme import HUES, SIGNED_RAMPS, frame_layout, ramp_at, scales

MAX_TICKS = 24  # labels on an axis of tokens
_BINS = 81  # of the pre-activations of a layer
_REST = 0.1  # percent of the pre-activations that may lie beyond either end of the axis
_CLIP = 99.0  # percentile of the sizes at which the colours of the map end
_HEIGHTS = {"map": (150, 15), "curve": (430, 460), "bins": (440, 420), "shares": (300, 300)}  # pixels; map: plus a row

Said = Mapping[str, str]  # the words of the section "neurons", by their short keys


def ordered_rows(post: np.ndarray, order: Sequence[int], position: int | None) -> list[dict]:
    """The first neurons of an order: number, activation at the position (or the largest), and where it is largest.

    `position` None takes each neuron's largest activation in size over the prompt. post [T, M]
    """
    rows = []
    for neuron in order:
        peak = int(np.abs(post[:, neuron]).argmax())
        at = peak if position is None else position
        value, most = float(post[at, neuron]), float(post[peak, neuron])
        rows.append({"neuron": int(neuron), "value": value, "peak": most, "at": peak})
    return rows


def numbers(values: np.ndarray) -> list[float]:
    """Float32 numbers for a payload, to the digits that float32 holds."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def short(value: float) -> str:
    """A number as a text of four digits, with a minus sign."""
    return f"{value:.4g}".replace("-", "−")


def signed_scales() -> dict[str, list[list]]:
    """Signed colours that lift small sizes: a share s of the largest size has the ramp's colour at sqrt(s)."""
    found = {}
    for name, stops in SIGNED_RAMPS.items():
        places = np.linspace(-1, 1, 33)
        found[name] = [[float((1 + p * abs(p)) / 2), ramp_at(stops, float((1 + p) / 2))] for p in places]
    return found


def map_figure(values: np.ndarray, neurons: Sequence[int], pieces: Sequence[str], said: Said) -> go.Figure:
    """Neurons down, tokens across, a cell's colour the activation; colours end at the 99th percentile. [n, T]"""
    n, T = values.shape
    top = float(np.percentile(np.abs(values), _CLIP)) or float(np.abs(values).max()) or 1.0
    names = [axis_name(at, piece) for at, piece in enumerate(pieces)]
    shown = range(0, T, -(-T // MAX_TICKS))
    fixed, each = _HEIGHTS["map"]
    colours = signed_scales()
    heat = go.Heatmap(
        z=values,
        x=names,
        y=[str(neuron) for neuron in neurons],
        coloraxis="coloraxis",
        xgap=int(T <= 40),
        ygap=1,
        hovertemplate=f"{plotly_text(said['neuron'])} %{{y}}<br>%{{x}}<br>"
        f"{plotly_text(said['activation'])}: %{{z:.4g}}<extra></extra>",
    )
    # Rows of the window lie below 0, so that a picked token frames its column and never a row.
    meta = {
        "scales": colours,
        "height": fixed + each * n,
        "narrow": fixed + each * n,
        "window": [-n, 0, 0, T],
        "block": 1,
        "whole": True,
    }
    look = {"type": "category", "showgrid": False, "zeroline": False, "automargin": True}
    bar = {
        "thickness": 10,
        "len": 1,
        "outlinewidth": 0,
        "tickformat": ".2~g",
        "title": {"text": plotly_text(said["activation"]), "side": "right"},
    }
    layout = frame_layout(meta) | {
        "coloraxis": {"colorscale": colours["light"], "cmin": -top, "cmax": top, "colorbar": bar},
        "xaxis": look
        | {
            "title": {"text": plotly_text(said["axis_token"]), "standoff": 8},
            "tickmode": "array",
            "tickvals": [names[i] for i in shown],
            "ticktext": [tick_text(pieces[i]) for i in shown],
        },
        "yaxis": look
        | {
            "title": {"text": plotly_text(said["neuron"]), "standoff": 8},
            "autorange": "reversed",
            "tickfont": {"size": 10},
            "dtick": 1,
        },
    }
    return go.Figure(heat, layout)


# --- the activation function ---


def span(pre: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """Ends of the axis: nearly all pre-activations of the layer [T, M], all of the neuron's own [T], and -4 to 4."""
    low, high = np.percentile(pre, [_REST, 100 - _REST])
    low, high = min(low, own.min(), -4.0), max(high, own.max(), 4.0)
    return float(low - 0.02 * (high - low)), float(high + 0.02 * (high - low))


def spread(low: float, high: float, points: int = 241) -> np.ndarray:
    """Evenly spaced numbers from low to high, 0 among them where it lies between. float32"""
    x = np.linspace(low, high, points)
    if low < 0 < high:
        x[np.abs(x).argmin()] = 0
    return x.astype(np.float32)


def outside(pre: np.ndarray, x: np.ndarray) -> float:
    """Share of the pre-activations beyond the ends of the axis."""
    return float(((pre < x[0]) | (pre > x[-1])).mean())


@dataclass(frozen=True, eq=False)
class Curve:
    """The activation function of a layer and what it is given; y are its values, before any product."""

    x: np.ndarray  # [n]
    y: np.ndarray  # [n]
    pre: np.ndarray  # of the whole layer, [T, M]
    own: np.ndarray  # of the neuron, [T]
    own_y: np.ndarray  # [T]
    name: str  # of the function
    neuron: int


def curve_figure(drawn: Curve, pieces: Sequence[str], said: Said) -> go.Figure:
    """Above: the function, with the neuron's tokens on it. Below: the layer's pre-activations as a histogram."""
    low, high = float(drawn.x[0]), float(drawn.x[-1])
    counts, edges = np.histogram(drawn.pre, _BINS, (low, high))
    shares, centres = counts / drawn.pre.size, (edges[1:] + edges[:-1]) / 2
    own = plotly_text(said["own_points"].format(neuron=drawn.neuron))
    labels = [plotly_text(f"{at} {shorten(visible(piece), 40)}") for at, piece in enumerate(pieces)]
    line, mark = HUES[7], HUES[4]
    x_name = plotly_text(said["axis_pre"])
    traces = [
        go.Scatter(
            x=drawn.x,
            y=drawn.y,
            text=[""] * len(drawn.x),
            name=plotly_text(drawn.name),
            mode="lines",
            line={"color": line, "width": 2},
            hovertemplate=f"{x_name} %{{x:.4g}}<br>%{{y:.4g}}",
        ),
        go.Scatter(
            x=drawn.own,
            y=drawn.own_y,
            text=labels,
            name=own,
            mode="markers",
            marker={"color": mark, "size": 7, "opacity": 0.75},
            customdata=[{"tokens": [at]} for at in range(len(labels))],
            hovertemplate=f"%{{text}}<br>{x_name} %{{x:.4g}}<br>%{{y:.4g}}",
        ),
        go.Bar(
            x=centres,
            y=shares,
            text=[""] * _BINS,
            name=plotly_text(said["layer_pre"]),
            yaxis="y2",
            width=float(edges[1] - edges[0]),
            marker={"color": HUES[5], "line": {"width": 0}},
            hovertemplate=f"{x_name} %{{x:.3g}}<br>%{{y:.2%}}",
        ),
    ]
    height, narrow = _HEIGHTS["curve"]
    look = {"automargin": True, "zeroline": False, "showgrid": True}
    layout = frame_layout({"height": height, "narrow": narrow}) | {
        "xaxis": look | {"title": {"text": x_name, "standoff": 8}, "range": [low, high], "anchor": "y2"},
        "yaxis": look | {"title": {"text": plotly_text(drawn.name), "standoff": 8}, "domain": [0.4, 1], "nticks": 6},
        "yaxis2": look
        | {
            "title": {"text": plotly_text(said["axis_share"]), "standoff": 8},
            "domain": [0, 0.32],
            "tickformat": ".2~%",
            "nticks": 4,
            "rangemode": "tozero",
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)"},
        "bargap": 0,
    }
    return go.Figure(traces, layout)


# --- all layers ---


def bin_names(edges: np.ndarray) -> list[str]:
    """What each bin between two edges is called, the ends open. [n + 1] -> n names"""
    names = []
    for low, high in pairwise(edges):
        if np.isinf(low):
            names.append(f"< {short(high)}")
        else:
            names.append(f"≥ {short(low)}" if np.isinf(high) else f"{short(low)} … {short(high)}")
    return names


def bins_figure(counts: np.ndarray, edges: np.ndarray, said: Said) -> go.Figure:
    """Layers across, bins of activations up, a cell's colour the share of the layer's activations in it. [L, bins]"""
    used = np.flatnonzero(counts.sum(0))
    rows = slice(int(used[0]), int(used[-1]) + 1)
    names = bin_names(edges)[rows]
    share = (counts / counts.sum(1, keepdims=True))[:, rows].T
    found = scales("share", "sqrt")
    height, narrow = _HEIGHTS["bins"]
    heat = go.Heatmap(
        z=np.where(share > 0, share, np.nan),
        x=list(range(len(counts))),
        y=names,
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        hoverongaps=False,
        hovertemplate=f"{plotly_text(said['axis_layer'])} %{{x}}<br>"
        f"{plotly_text(said['activation'])} %{{y}}<br>%{{z:.3%}}<extra></extra>",
    )
    bar = {
        "thickness": 10,
        "len": 1,
        "outlinewidth": 0,
        "tickformat": ".2~%",
        "title": {"text": plotly_text(said["bin_share"]), "side": "right"},
    }
    layout = frame_layout({"scales": found, "height": height, "narrow": narrow}) | {
        "coloraxis": {"colorscale": found["light"], "cmin": 0, "cmax": float(share.max()), "colorbar": bar},
        "xaxis": _layers(len(counts), said),
        "yaxis": {
            "type": "category",
            "title": {"text": plotly_text(said["activation"]), "standoff": 8},
            "showgrid": False,
            "zeroline": False,
            "automargin": True,
            "tickfont": {"size": 10},
        },
    }
    return go.Figure(heat, layout)


def shares_figure(lines: Mapping[str, np.ndarray], said: Said) -> go.Figure:
    """One line a quantity, named by its key: a share by layer. [L] each"""
    traces = [
        go.Scatter(
            x=list(range(len(values))),
            y=values,
            name=plotly_text(name),
            mode="lines+markers",
            line={"color": HUES[n], "width": 2, "dash": ("solid", "dash", "dot")[n]},
            marker={"size": 6},
            hovertemplate=f"{plotly_text(said['axis_layer'])} %{{x}}: %{{y:.2%}}",
        )
        for n, (name, values) in enumerate(lines.items())
    ]
    height, narrow = _HEIGHTS["shares"]
    layout = frame_layout({"height": height, "narrow": narrow}) | {
        "xaxis": _layers(len(next(iter(lines.values()))), said),
        "yaxis": {
            "title": {"text": plotly_text(said["axis_fraction"]), "standoff": 8},
            "range": [-0.03, 1.03],
            "tickformat": ".0%",
            "automargin": True,
            "zeroline": False,
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)"},
    }
    return go.Figure(traces, layout)


def _layers(count: int, said: Said) -> dict:
    """An axis of layers: whole numbers from 0 up, a label on at most 16 of them."""
    return {
        "title": {"text": plotly_text(said["axis_layer"]), "standoff": 8},
        "tickmode": "linear",
        "tick0": 0,
        "dtick": -(-count // 16),
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }
