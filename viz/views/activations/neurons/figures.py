"""Figures of MLP neurons: activations by token, the activation function with its inputs, and layer statistics."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, ORANGE, axis, figure, layer_axis, ticks, token_names
from viz.charts.lines import bars, line, token_data
from viz.labels import plotly_text, tick_text
from viz.numbers import number
from viz.theme import HUES, SIGNED_RAMPS, frame_layout, ramp_at, scales

_CLIP = 99.0  # percentile of |activation| at which the map's color scale saturates
# Heights in pixels on a wide and on a narrow page; for the map, of the fixed part and of each row.
_HEIGHTS = {"map": (150, 15), "curve": (430, 460), "bins": (440, 420), "shares": (300, 300)}
_LAYERS = 16  # maximum number of layers labeled on an axis


def signed_scales() -> dict[str, list[list]]:
    """Build signed color scales that emphasize small magnitudes.

    A value v in [-1, 1], relative to the maximum, has the ramp's color at sign(v) sqrt(|v|).
    """
    roots = np.linspace(-1, 1, 33)
    return {
        name: [[float((1 + p * abs(p)) / 2), ramp_at(stops, float((1 + p) / 2))] for p in roots]
        for name, stops in SIGNED_RAMPS.items()
    }


def _bar(title: str, tickformat: str) -> dict:
    """Build a color bar."""
    look = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": tickformat}
    return look | {"title": {"text": plotly_text(title), "side": "right"}}


def map_figure(
    values: np.ndarray, neurons: Sequence[int], pieces: Sequence[str], words: Mapping[str, str]
) -> go.Figure:
    """Draw a heat map of activations: one row per neuron, one column per token. values [n, T]

    The color scale saturates at the 99th percentile of |activation|. `words`: "neuron", "activation", "token".
    """
    n, T = values.shape
    top = float(np.percentile(np.abs(values), _CLIP)) or float(np.abs(values).max()) or 1.0
    names, shown = token_names(pieces), ticks(T)
    fixed, each = _HEIGHTS["map"]
    colors, neuron, activation = signed_scales(), plotly_text(words["neuron"]), plotly_text(words["activation"])
    heat = go.Heatmap(
        z=values,
        x=names,
        y=[str(neuron) for neuron in neurons],
        coloraxis="coloraxis",
        xgap=int(T <= 40),
        ygap=1,
        hovertemplate=f"{neuron} %{{y}}<br>%{{x}}<br>{activation}: %{{z:.4g}}<extra></extra>",
    )
    # Row indices in the window are negative, so that a selected token frames its column and never a row.
    height = fixed + each * n
    window = {"window": [-n, 0, 0, T], "block": 1, "whole": True}
    labels = {"tickvals": [names[i] for i in shown], "ticktext": [tick_text(pieces[i]) for i in shown]}
    across = {"type": "category", "showgrid": False, "tickmode": "array", **labels}
    down = {"type": "category", "showgrid": False, "autorange": "reversed", "tickfont": {"size": 11}, "dtick": 1}
    bar = _bar(words["activation"], ".2~g")
    layout = frame_layout({"scales": colors, "height": height, "narrow": height, **window}) | {
        "coloraxis": {"cmin": -top, "cmax": top, "colorbar": bar},
        "xaxis": axis(words["token"], across),
        "yaxis": axis(words["neuron"], down),
    }
    return go.Figure(heat, layout)


# --- the activation function ---


def curve_figure(curve: Any, neuron: int, name: str, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the activation function with the neuron's tokens on it, above a histogram of the layer's pre-activations.

    `curve` has the fields of measure.ActivationCurve. `words`: "pre", "share", "own", "all".
    """
    pre, edges = plotly_text(words["pre"]), curve.edges
    at = f"{pre} %{{x:.4g}}<br>%{{y:.4g}}"
    look = {"mode": "markers", "marker": {"color": ORANGE, "size": 7, "opacity": 0.75}}
    look["customdata"] = token_data(len(curve.neuron_x))
    label, x, names = words["own"].format(neuron=neuron), curve.x.tolist(), token_names(pieces)
    centers, more = ((edges[1:] + edges[:-1]) / 2).tolist(), {"yaxis": "y2", "width": float(edges[1] - edges[0])}
    traces = [
        line(name, x, curve.y, HUES[7], hover=at, more={"mode": "lines"}),
        line(
            label,
            curve.neuron_x.tolist(),
            curve.neuron_y,
            ORANGE,
            hover=f"%{{text}}<br>{at}",
            text=names,
            more=look,
        ),
        bars(words["all"], centers, curve.shares, HUES[5], hover=f"{pre} %{{x:.3g}}<br>%{{y:.2%}}", more=more),
    ]
    height, narrow = _HEIGHTS["curve"]
    below = {"domain": [0, 0.32], "tickformat": ".2~%", "nticks": 4, "rangemode": "tozero"}
    layout = frame_layout({"height": height, "narrow": narrow}) | {
        "xaxis": axis(words["pre"], {"range": [x[0], x[-1]], "anchor": "y2"}),
        "yaxis": axis(name, {"domain": [0.4, 1], "nticks": 6}),
        "yaxis2": axis(words["share"], below),
        "legend": LEGEND | {"bgcolor": "rgba(0,0,0,0)"},
        "bargap": 0,
    }
    return go.Figure(traces, layout)


# --- all layers ---


def bin_names(edges: np.ndarray) -> list[str]:
    """Format the bins between consecutive edges; infinite ends are open. [n + 1] -> n names"""
    names = []
    for low, high in pairwise(edges):
        if np.isinf(low):
            names.append(f"< {number(high)}")
        else:
            names.append(f"≥ {number(low)}" if np.isinf(high) else f"{number(low)} … {number(high)}")
    return names


def bins_figure(counts: np.ndarray, edges: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw a heat map of the activations' distribution: layers down, bins across, color by fraction.

    counts [L, bins]; the fractions of a layer add up to 1. `words`: "layer", "activation", "share".
    """
    used = np.flatnonzero(counts.sum(0))
    bins = slice(int(used[0]), int(used[-1]) + 1)
    share = (counts / counts.sum(1, keepdims=True))[:, bins]
    colors = scales("share", "sqrt")
    height, narrow = _HEIGHTS["bins"]
    layer, activation = plotly_text(words["layer"]), plotly_text(words["activation"])
    heat = go.Heatmap(
        z=np.where(share > 0, share, np.nan),
        x=bin_names(edges)[bins],
        y=list(range(len(counts))),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        hoverongaps=False,
        hovertemplate=f"{layer} %{{y}}<br>{activation} %{{x}}<br>%{{z:.3%}}<extra></extra>",
    )
    bar = _bar(words["share"], ".2~%")
    layout = frame_layout({"scales": colors, "height": height, "narrow": narrow}) | {
        "coloraxis": {"cmin": 0, "cmax": float(share.max()), "colorbar": bar},
        "xaxis": axis(words["activation"], {"type": "category", "showgrid": False, "tickangle": -60}),
        "yaxis": layer_axis(words["layer"], len(counts)),
    }
    return go.Figure(heat, layout)


def shares_figure(lines: Mapping[str, np.ndarray], words: Mapping[str, str]) -> go.Figure:
    """Draw one line per quantity across the layers. `lines`: name -> fractions [L]. `words`: "layer", "share"."""
    hover, L = f"{plotly_text(words['layer'])} %{{x}}: %{{y:.2%}}", len(next(iter(lines.values())))
    traces = [
        line(name, range(L), values, hue, hover=hover, dash=dash, more={"mode": "lines+markers"})
        for (name, values), hue, dash in zip(lines.items(), HUES, ("solid", "dash", "dot"), strict=False)
    ]
    height, narrow = _HEIGHTS["shares"]
    y = axis(words["share"], {"range": [-0.03, 1.03], "tickformat": ".0%"})
    return figure(traces, _layer_axis(L, words["layer"]), y, height=height, narrow=narrow)


def _layer_axis(count: int, title: str) -> dict:
    """Build a layer axis with at most _LAYERS labels."""
    return axis(title, {"tickmode": "linear", "tick0": 0, "dtick": -(-count // _LAYERS), "showgrid": False})
