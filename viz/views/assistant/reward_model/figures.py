"""Figures of a reward model: training curves, calibration, and the effect of single words."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, ORANGE, ZERO, axis, figure, row_axis
from viz.charts.lines import bars, guide, line, rows
from viz.labels import plotly_text, visible
from viz.numbers import signed, whole

HEIGHT = 320


def curve_figure(
    steps: Sequence[int],
    series: Mapping[str, Sequence[float]],
    words: Mapping[str, str],
    reference: float,
    form: str,
) -> go.Figure:
    """Draw a quantity by step for training pairs and held-out pairs, with a reference line.

    `form` is the number format of the values; `words`: "step", "value", "reference".
    """
    hover = f"{plotly_text(words['step'])}: %{{x}}<br>{plotly_text(words['value'])}: %{{y:{form}}}"
    traces = [
        line(name, steps, values, color, hover=hover)
        for (name, values), color in zip(series.items(), (BLUE, ORANGE), strict=True)
    ]
    traces.append(guide(words["reference"], [steps[0], steps[-1]], [reference, reference], "dash"))
    up = {"tickformat": ".0%", "range": [0.25, 1.03]} if form.endswith("%") else {"rangemode": "tozero"}
    return figure(traces, axis(words["step"]), axis(words["value"], up), height=HEIGHT)


def calibration_figure(
    predicted: np.ndarray, agreed: np.ndarray, counts: np.ndarray, words: Mapping[str, str]
) -> go.Figure:
    """Draw the fraction of agreeing pairs as one bar per bin of predicted probability.

    The dashed line marks perfect calibration.
    """
    filled = counts > 0
    text = [f"{words['count']}: {whole(int(n))}" for n in counts[filled]]
    names = [f"{plotly_text(words['predicted'])}: %{{x:.1%}}", f"{plotly_text(words['agreed'])}: %{{y:.1%}}", "%{text}"]
    width = {"width": [0.07] * int(filled.sum())}
    traces = [
        bars(
            words["pairs"],
            predicted[filled].tolist(),
            agreed[filled],
            GREEN,
            hover="<br>".join(names),
            text=text,
            more=width,
        ),
        guide(words["perfect"], [0.5, 1], [0.5, 1], "dash"),
    ]
    notes = [
        {"x": float(x), "y": float(y), "text": whole(int(n)), "showarrow": False, "yanchor": "bottom"}
        for x, y, n in zip(predicted[filled], agreed[filled], counts[filled], strict=True)
    ]
    x = axis(words["predicted"], {"range": [0.45, 1.05], "tickformat": ".0%"})
    y = axis(words["agreed"], {"range": [0, 1.12], "tickformat": ".0%"})
    return figure(traces, x, y, height=HEIGHT, more={"annotations": notes})


def words_figure(named: Sequence[str], without: np.ndarray, instead: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw two bars per word: the change in reward if the word is deleted, and if it is replaced by the other word.

    A series with only NaN is omitted.
    """
    keys = [str(at) for at in range(len(named))]
    labels = [visible(each) for each in named]
    traces = []
    for name, values, color in ((words["without"], without, BLUE), (words["instead"], instead, ORANGE)):
        if np.isnan(values).all():
            continue
        hovers = [
            f"{plotly_text(label)}<br>{plotly_text(name)}: {signed(float(value))}"
            for label, value in zip(labels, values, strict=True)
        ]
        traces.append(rows(name, keys, values, color, hovers=hovers))
    height = max(HEIGHT, 90 + 26 * len(named))
    y = row_axis(keys, [plotly_text(label) for label in labels])
    return figure(traces, axis(words["change"], ZERO), y, height=height, more={"barmode": "group"})
