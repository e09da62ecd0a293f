"""Figures of a steering vector: its gain and cost beside random directions, and its component along the prompt."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, ORANGE, axis, figure, layer_axis, powers, token_axis, token_names
from viz.charts.lines import guide, line, runs
from viz.charts.shades import colored, shade_of
from viz.labels import plotly_text

_ROW, _FIXED, _HEIGHT = 20, 130, 300  # heights in pixels


def beside_random(
    x: Sequence[float], own: np.ndarray, random: np.ndarray, base: float | None, words: Mapping[str, str]
) -> go.Figure:
    """Draw a quantity with the vector and the mean and range with random directions. own [n], random [draws, n]

    `base` is its value without steering; where it is given, the quantity is a probability, on a log axis. Keys of
    `words`: `own`, `random`, `base`, `across`, `value`.
    """
    hover = f"{plotly_text(words['across'])}: %{{x}}<br>{plotly_text(words['value'])}: %{{y:.4g}}"
    traces = [*runs(words["random"], x, random, ORANGE, hover=hover), line(words["own"], x, own, BLUE, hover=hover)]
    if base is not None:
        traces.insert(0, guide(words["base"], [x[0], x[-1]], [base, base]))
    shown = {"rangemode": "tozero"} if base is None else _shares(np.concatenate((own, random.ravel(), [base])))
    return figure(traces, axis(words["across"]), axis(words["value"], shown), height=_HEIGHT)


def _shares(values: np.ndarray) -> dict[str, Any]:
    """Build the log axis of probabilities, however small."""
    seen = values[values > 0]
    return powers(float(seen.min()), float(seen.max()))


def along_figure(values: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the component of every token's stream along each layer's vector. [L, T]

    Keys of `words`: `token`, `layer`, `value`.
    """
    z, bar, scales = colored(values, shade_of(values, signed=True))
    names = token_names(pieces)
    lines = (f"{plotly_text(words['layer'])}: %{{y}}", "%{text}", f"{plotly_text(words['value'])}: %{{customdata:.4g}}")
    heat = go.Heatmap(
        z=z.astype(np.float32),
        customdata=values.astype(np.float32),
        text=[names] * len(values),
        coloraxis="coloraxis",
        meta={"exact": True},
        hovertemplate="<br>".join(lines) + "<extra></extra>",
    )
    bar["colorbar"]["title"] = {"text": plotly_text(words["value"]), "side": "right"}
    height = _FIXED + _ROW * len(values)
    y = layer_axis(words["layer"], len(values))
    x = token_axis(words["token"], pieces)
    return figure([heat], x, y, height=height, meta={"scales": scales}, more={"coloraxis": bar})
