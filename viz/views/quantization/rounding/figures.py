"""Figures of quantization methods: output errors, the search for a scaling exponent, and compensation by column."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.charts.lines import bars, line
from viz.labels import plotly_text
from viz.numbers import percent
from viz.theme import HUES

COLORS = {"nearest": HUES[7], "scaled": HUES[0], "compensated": HUES[4], "both": HUES[3]}
_SEEN, _UNSEEN = HUES[5], HUES[0]


def error_figure(
    names: Sequence[str], fit: Sequence[float], held_out: Sequence[float], words: Mapping[str, str]
) -> go.Figure:
    """Draw two bars per method: the relative output error on the calibration text and on held-out text.

    Keys of `words`: `seen`, `unseen`, `error`.
    """
    x, traces = [plotly_text(name) for name in names], []
    for key, values, color in (("seen", fit, _SEEN), ("unseen", held_out, _UNSEEN)):
        text = [percent(value) for value in values]
        y = [100 * value for value in values]
        traces.append(bars(words[key], x, y, color, hover="%{x}: %{text}", text=text))
    return _figure(traces, "", words["error"], {"barmode": "group", "bargap": 0.3})


def power_figure(powers: Sequence[float], errors: Sequence[float], best: float, words: Mapping[str, str]) -> go.Figure:
    """Draw the output error as a function of the scaling exponent, with the best exponent marked.

    Exponent 0, the first one, is rounding to nearest. Keys of `words`: `power`, `error`, `scaled`, `best_power`,
    `nearest`.
    """
    y, index = [100 * error for error in errors], list(powers).index(best)
    hover = f"{plotly_text(words['power'])}: %{{x:.2f}}<br>{plotly_text(words['error'])}: %{{y:.4g}}"
    ring = {"size": 13, "color": COLORS["scaled"], "symbol": "circle-open", "line": {"width": 3}}
    markers, lines = {"mode": "markers", "marker": ring}, {"mode": "lines"}
    ends, level = [powers[0], powers[-1]], [y[0], y[0]]
    traces = [
        line(words["scaled"], powers, y, COLORS["scaled"], hover=hover, width=2.5),
        line(words["best_power"], [best], [y[index]], COLORS["scaled"], hover=hover, more=markers),
        line(words["nearest"], ends, level, COLORS["nearest"], hover=hover, dash="dash", more=lines),
    ]
    return _figure(traces, words["power"], words["error"], {})


def column_figure(
    columns: Sequence[int], nearest: Sequence[float], compensated: Sequence[float], words: Mapping[str, str]
) -> go.Figure:
    """Draw the output error as a function of the number of quantized columns, with and without compensation.

    Keys of `words`: `columns`, `columns_of`, `error`, `nearest`, `compensated`.
    """
    hover = f"%{{x:,}} {plotly_text(words['columns_of'])}: %{{y:.4g}}%"
    traces = [
        line(words[key], [0, *columns], [0.0, *(100 * value for value in values)], COLORS[key], hover=hover, width=2.5)
        for key, values in (("nearest", nearest), ("compensated", compensated))
    ]
    return _figure(traces, words["columns"], words["error"], {})


def _figure(traces: list, x: str, y: str, more: Mapping[str, object]) -> go.Figure:
    return figure(traces, axis(x), axis(y, {"rangemode": "tozero"}), more=more)
