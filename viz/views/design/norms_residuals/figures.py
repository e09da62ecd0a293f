"""Figures of tiny training runs: gradient norms by block, by depth and by step, and the losses of the first steps."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, LOG, ORANGE, PINK, axis, figure, layer_axis
from viz.charts.lines import guide, line, runs
from viz.charts.shades import colored
from viz.labels import plotly_text
from viz.theme import HUES

HEIGHT, NARROW = 380, 420
COLORS = {
    "pre": BLUE,
    "post": ORANGE,
    "pre_bare": GREEN,
    "post_bare": PINK,
    "pre_cold": HUES[5],
    "post_cold": HUES[1],
}
DASHES = {"pre_bare": "dash", "post_bare": "dash", "pre_cold": "dot", "post_cold": "dot"}


def _hover(x: str, y: str) -> str:
    return f"{plotly_text(x)}: %{{x}}<br>{plotly_text(y)}: %{{y:.4g}}"


def _lengths(
    lengths: Mapping[str, np.ndarray], x: Sequence[int], names: Mapping[str, str], hover: str
) -> list[go.Scatter]:
    """Draw the gradient norms of each wiring, mean and range over seeds. Each entry of `lengths` is [seeds, len(x)]."""
    return [
        trace
        for key, each in lengths.items()
        for trace in runs(names[key], x, each, COLORS[key], hover=hover, dash=DASHES.get(key, "solid"))
    ]


def starts_figure(lengths: Mapping[str, np.ndarray], names: Mapping[str, str], block: str, norm: str) -> go.Figure:
    """Draw the gradient norm of each block, one line per wiring. Each entry of `lengths` is [seeds, L]."""
    n = next(iter(lengths.values())).shape[1]
    traces = _lengths(lengths, range(n), names, _hover(block, norm))
    return figure(traces, axis(block), axis(norm, LOG), height=HEIGHT, narrow=NARROW)


def depths_figure(
    depths: Sequence[int], lengths: Mapping[str, np.ndarray], names: Mapping[str, str], words: Mapping[str, str]
) -> go.Figure:
    """Draw the last block's gradient norm as a function of depth.

    Each entry of `lengths` is [seeds, depths]. Keys of `words`: `depth`, `norm`, and `theory`, the name of a line that
    falls as 1 / sqrt(depth) from the first wiring's mean at the first depth; if it is empty, no such line is drawn.
    """
    traces = _lengths(lengths, depths, names, _hover(words["depth"], words["norm"]))
    if words["theory"]:
        start = float(next(iter(lengths.values()))[:, 0].mean())
        traces.append(guide(words["theory"], depths, [start * (depths[0] / depth) ** 0.5 for depth in depths]))
    labels = {"tickvals": list(depths), "ticktext": [str(depth) for depth in depths]}
    x = axis(words["depth"], {**LOG, **labels})
    return figure(traces, x, axis(words["norm"], LOG), height=HEIGHT, narrow=NARROW)


def losses_figure(
    losses: Mapping[str, np.ndarray], frequencies: np.ndarray, names: Mapping[str, str], words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss at each step, and the loss of predicting byte frequencies alone. [N] each, one entry per step

    Keys of `words`: `step`, `loss`, `frequencies`.
    """
    at = range(1, len(frequencies) + 1)
    hover, more = _hover(words["step"], words["loss"]), {"mode": "lines"}
    traces = [
        line(names[key], at, each, COLORS[key], hover=hover, dash=DASHES.get(key, "solid"), width=2.5, more=more)
        for key, each in losses.items()
    ]
    traces.append(guide(words["frequencies"], at, frequencies, "dash"))
    return figure(traces, axis(words["step"]), axis(words["loss"]), height=HEIGHT, narrow=NARROW)


def heat_figure(norms: np.ndarray, x: str, y: str, value: str) -> go.Figure:
    """Draw the gradient norm at each step and layer, layers down, colored by its logarithm. norms [N, L]"""
    values = norms.T  # [L, N]
    z, bar, scales = colored(values, "log" if (values > 0).any() else "even")
    hover = f"{plotly_text(y)}: %{{y}}<br>{plotly_text(x)}: %{{x}}<br>{plotly_text(value)}: %{{customdata:.4g}}"
    heat = go.Heatmap(
        z=z.astype(np.float32),
        customdata=values.astype(np.float32),
        coloraxis="coloraxis",
        meta={"exact": True},
        x=list(range(1, values.shape[1] + 1)),
        y=list(range(values.shape[0])),
        hovertemplate=f"{hover}<extra></extra>",
    )
    bar["colorbar"]["title"] = {"text": plotly_text(value), "side": "right"}
    across = axis(x, {"showgrid": False, "nticks": 9})
    down, more = layer_axis(y, values.shape[0]), {"coloraxis": bar}
    return figure([heat], across, down, height=HEIGHT, meta={"scales": scales}, more=more)
