"""Figures of four ways to compute attention: one row of the online softmax, and the cost of each way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, GREEN, ORANGE, PINK, axis, figure, token_axis, token_names
from viz.charts.lines import line, token_data, values
from viz.labels import plotly_text
from viz.numbers import milliseconds, size, whole
from viz.theme import HUES, scales

COLORS = {"naive": ORANGE, "rows": PINK, "chunked": BLUE, "fused": GREEN}
MARKED = 64  # maximum number of keys drawn with gaps and large markers
SCORES, ROW, GAP, FOOT = 150, 24, 24, 110  # heights in pixels: scores, row of weights, gap, margin below


def steps_figure(scores: np.ndarray, steps: Sequence, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw one query's scores and their running maximum, above its weights after each block of keys.

    `scores`: [n]; `steps`: the result of model.design.kernels.online_steps. Keys of `words`: `key`, `score`, `maximum`,
    `weight`, `after`, `whole`.
    """
    n, names = len(scores), token_names(pieces[: len(scores)])
    key, score, weight = (plotly_text(words[name]) for name in ("key", "score", "weight"))
    shades = [(HUES[5], BLUE)[at % 2] for at, step in enumerate(steps) for _ in range(step.start, step.end)]
    points = line(
        words["score"],
        range(n),
        scores,
        BLUE,
        hover=f"{key}: %{{text}}<br>{score}: %{{y:.4f}}",
        text=names,
        more={
            "mode": "markers",
            "marker": {"size": 8 if n <= MARKED else 4, "color": shades},
            "customdata": token_data(n),
            "yaxis": "y2",
        },
    )
    tops = [step.maximum for step in steps]
    look = {"mode": "lines", "line": {"shape": "vh", "color": ORANGE, "width": 2.5}, "yaxis": "y2"}
    ends = [-0.5, *(step.end - 0.5 for step in steps)]
    top = line(words["maximum"], ends, [tops[0], *tops], ORANGE, hover="%{y:.4f}", more=look)
    rows = [words["after"].format(n=at + 1, start=step.start, end=step.end - 1) for at, step in enumerate(steps)]
    z = [values(row) for row in (*(step.weights for step in steps), steps[-1].weights)]
    heat = go.Heatmap(
        x=list(range(n)),
        y=[plotly_text(row) for row in (*rows, words["whole"])],
        z=z,
        coloraxis="coloraxis",
        text=[names] * len(z),
        hoverongaps=False,
        xgap=1 if n <= MARKED else 0,
        ygap=2,
        hovertemplate=f"%{{y}}<br>{key}: %{{text}}<br>{weight}: %{{z:.6f}}<extra></extra>",
    )
    return _scores_above(points, top, heat, pieces[:n], words)


def _scores_above(
    points: go.Scatter, top: go.Scatter, heat: go.Heatmap, pieces: Sequence[str], words: Mapping[str, str]
) -> go.Figure:
    """Stack the scores, in a panel of fixed height, above a heatmap whose height grows with its number of rows."""
    below = ROW * len(heat.y)
    inner = SCORES + below + GAP
    ramps = scales("share", "sqrt")
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickvals": [0, 0.05, 0.25, 0.5, 1], "tickformat": ".3~g"}
    bar["title"] = {"text": plotly_text(words["weight"]), "side": "right"}
    x = token_axis(words["key"], pieces, {"range": [-0.5, len(pieces) - 0.5], "anchor": "y"})
    weights = {"domain": [0, below / inner], "autorange": "reversed", "showgrid": False, "type": "category"}
    y = axis("", weights | {"tickfont": {"size": 11}})
    y2 = axis(words["score"], {"domain": [1 - SCORES / inner, 1], "anchor": "x"})
    colors = {"cmin": 0, "cmax": 1, "colorbar": bar}
    meta, more = {"places": True, "scales": ramps}, {"yaxis2": y2, "coloraxis": colors}
    return figure([points, top, heat], x, y, height=inner + FOOT, meta=meta, more=more)


# --- costs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContextCurve:
    """A quantity as a function of context length, with the interquartile range of each value if it was measured."""

    name: str
    lengths: Sequence[int]  # context lengths in tokens
    values: Sequence[float]
    spread: Sequence[tuple[float, float]] = ()
    color: str = GRAY
    dash: str = "solid"


def times_figure(curves: Sequence[ContextCurve], words: Mapping[str, str]) -> go.Figure:
    """Draw the time as a function of context length on two logarithmic axes; error bars show the interquartile range.

    Keys of `words`: `context`, `time`, `tokens`, `spread`.
    """
    traces = []
    for curve in curves:
        spans = [f"{milliseconds(low)}–{milliseconds(high)}" for low, high in curve.spread]
        hovers = [
            f"{whole(length)} {plotly_text(words['tokens'])}: {milliseconds(value)} ms<br>"
            f"{plotly_text(words['spread'])}: {span}"
            for length, value, span in zip(curve.lengths, curve.values, spans, strict=True)
        ]
        error = {
            "type": "data",
            "symmetric": False,
            "thickness": 1.5,
            "width": 4,
            "color": curve.color,
            "array": [1000 * (high - v) for v, (_, high) in zip(curve.values, curve.spread, strict=True)],
            "arrayminus": [1000 * (v - low) for v, (low, _) in zip(curve.values, curve.spread, strict=True)],
        }
        traces.append(_line(curve, 1000, hovers, {"error_y": error, "text": spans}))
    return _growth(traces, curves, words["context"], words["time"])


def memory_figure(curves: Sequence[ContextCurve], words: Mapping[str, str]) -> go.Figure:
    """Draw the memory in MB as a function of context length on two logarithmic axes.

    Keys of `words`: `context`, `memory`, `tokens`.
    """
    traces = []
    for curve in curves:
        hovers = [
            f"{whole(length)} {plotly_text(words['tokens'])}: {size(value)}"
            for length, value in zip(curve.lengths, curve.values, strict=True)
        ]
        traces.append(_line(curve, 1e-6, hovers, {}))
    return _growth(traces, curves, words["context"], words["memory"])


def _line(curve: ContextCurve, unit: float, hovers: Sequence[str], more: Mapping[str, Any]) -> go.Scatter:
    """Draw one curve with its values multiplied by `unit`."""
    solid = curve.dash == "solid"
    look = {"mode": "lines+markers" if solid else "lines", "marker": {"size": 8, "color": curve.color}}
    return line(
        curve.name,
        curve.lengths,
        [unit * value for value in curve.values],
        curve.color,
        hover="%{hovertext}",
        dash=curve.dash,
        width=2.5 if solid else 1.5,
        more={**look, "hovertext": list(hovers), **more},
    )


def _growth(traces: Sequence[go.Scatter], curves: Sequence[ContextCurve], x: str, y: str) -> go.Figure:
    """Draw the curves on two logarithmic axes, with x ticks at the measured lengths and y ticks at powers of ten."""
    lengths = sorted({length for curve in curves for length in curve.lengths})
    across = axis(x, {"type": "log", "tickvals": lengths, "ticktext": list(map(whole, lengths))})
    up = axis(y, {"type": "log", "dtick": 1, "tickformat": ",~g"})
    return figure(traces, across, up, height=400, narrow=420)
