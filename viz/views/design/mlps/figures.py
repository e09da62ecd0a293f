"""Figures that compare MLPs: their activation functions, a gate, and losses with a band over seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, ORANGE, axis, figure
from viz.charts.lines import guide, line, runs
from viz.labels import plotly_text
from viz.theme import HUES, scales

HEIGHT, LOSS_HEIGHT = 340, 380
COLORS = {"swiglu": BLUE, "gelu": ORANGE, "relu": GREEN}
FUNCTION_COLORS = {"relu": GREEN, "gelu": ORANGE, "gelu_tanh": HUES[1], "silu": BLUE}
SLICE_COLORS = (ORANGE, HUES[1], HUES[7], HUES[5], BLUE)
_DASHES = {"gelu_tanh": "dot"}


def _hover(x: str, y: str) -> str:
    return f"{plotly_text(x)}: %{{x}}<br>{plotly_text(y)}: %{{y:.4g}}"


def functions_figure(
    x: np.ndarray, values: Mapping[str, np.ndarray], names: Mapping[str, str], labels: tuple[str, str]
) -> go.Figure:
    """Draw one line per function.

    `x` and each entry of `values` are [P], one entry per point. `labels`: titles of the x and y axes.
    """
    traces = [
        line(names[key], x.tolist(), y, FUNCTION_COLORS[key], hover=_hover(*labels), dash=_DASHES.get(key, "solid"))
        for key, y in values.items()
    ]
    return figure(traces, *map(axis, labels), height=HEIGHT, narrow=HEIGHT + 40)


def largest_gap(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the largest absolute difference between two functions, and the x where it occurs. [P] each"""
    at = int(np.abs(first - second).argmax())
    return float(abs(first[at] - second[at])), float(x[at])


def gate_figure(x: np.ndarray, values: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw silu(gate) * up as a function of both branches, blue and orange for the two signs. values [up, gate]

    Keys of `words`: `gate`, `up`, `passed`.
    """
    top = float(np.abs(values).max())
    gate, up, passed = (plotly_text(words[key]) for key in ("gate", "up", "passed"))
    heat = go.Heatmap(
        z=values.astype(np.float32),
        x=x.tolist(),
        y=x.tolist(),
        coloraxis="coloraxis",
        hovertemplate=f"{gate}: %{{x:.2f}}<br>{up}: %{{y:.2f}}<br>{passed}: %{{z:.4g}}<extra></extra>",
    )
    ramps = scales("signed", "linear")
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "title": {"text": passed, "side": "right"}}
    colors = {"cmin": -top, "cmax": top, "colorbar": bar}
    across, along = (axis(words[key], {"showgrid": False}) for key in ("gate", "up"))
    return figure([heat], across, along, height=HEIGHT, meta={"scales": ramps}, more={"coloraxis": colors})


def slices(x: np.ndarray, values: np.ndarray, at: Sequence[float]) -> list[np.ndarray]:
    """Select the row of a gate's output nearest to each given value of the linear branch.

    x [P], values [up, gate] -> [gate] each
    """
    return [values[int(np.abs(x - each).argmin())] for each in at]


def slices_figure(
    x: np.ndarray, rows: Sequence[np.ndarray], names: Sequence[str], labels: tuple[str, str]
) -> go.Figure:
    """Draw one line per row of `slices`. `labels`: titles of the x and y axes."""
    traces = [
        line(name, x.tolist(), row, color, hover=_hover(*labels), more={"mode": "lines"})
        for name, row, color in zip(names, rows, SLICE_COLORS, strict=True)
    ]
    return figure(traces, *map(axis, labels), height=HEIGHT, narrow=HEIGHT + 40)


def loss_figure(
    moments: Sequence[int],
    held_out: Mapping[str, np.ndarray],
    frequencies: float,
    names: Mapping[str, str],
    words: Mapping[str, str],
) -> go.Figure:
    """Draw the held-out losses, mean and range over seeds, and the loss of predicting byte frequencies alone.

    Each entry of `held_out` is [seeds, moments]. Keys of `words`: `step`, `loss`, `frequencies`.
    """
    hover = _hover(words["step"], words["loss"])
    traces = [
        trace for key, each in held_out.items() for trace in runs(names[key], moments, each, COLORS[key], hover=hover)
    ]
    traces.append(guide(words["frequencies"], moments, [frequencies] * len(moments), "dash"))
    return figure(traces, axis(words["step"]), axis(words["loss"]), height=LOSS_HEIGHT, narrow=LOSS_HEIGHT + 40)
