"""Figures of a corpus: distances, kinds of tokens, activations, and the outputs of a head in clusters."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, axis, figure, powers
from viz.charts.lines import bars, line
from viz.labels import plotly_text
from viz.numbers import factor, percent, plain
from viz.theme import HUES, frame, scales

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star", "pentagon")


def distance_figure(own: np.ndarray, even: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw the share of the weight by distance as bars, and that of uniform attention as a line. [T] each

    Keys of `words`: `own`, `uniform`, `x`, `value`.
    """
    x = list(range(len(own)))
    traces = [
        bars(words["own"], x, own, BLUE, hover="%{x}: %{y:.2%}"),
        line(words["uniform"], x, even, GRAY, hover="%{x}: %{y:.2%}", more={"mode": "lines"}),
    ]
    return figure(traces, axis(words["x"]), axis(words["value"], {"tickformat": ".0%", "rangemode": "tozero"}))


def kinds_figure(own: np.ndarray, even: np.ndarray, names: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the share of the weight minus the share of uniform attention, queries down and keys across. [K, K] each

    Keys of `words`: `query`, `key`, `own`, `uniform`, `ratio`, `value`.
    """
    more = 100 * (own - even)
    top = float(np.abs(more).max(initial=0)) or 1.0
    said = [
        [
            f"{words['own']}: {percent(a)}<br>{words['uniform']}: {percent(b)}"
            + (f"<br>{words['ratio']}: {factor(a / b)}" if b else "")
            for a, b in zip(*rows, strict=True)
        ]
        for rows in zip(own.tolist(), even.tolist(), strict=True)
    ]
    shown = [plotly_text(name) for name in names]
    head = f"{plotly_text(words['query'])}: %{{y}}<br>{plotly_text(words['key'])}: %{{x}}<br>"
    heat = go.Heatmap(
        z=more.astype(np.float32),
        x=shown,
        y=shown,
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        text=said,
        hovertemplate=head + "%{text}<extra></extra>",
    )
    drawn = frame(go.Figure([heat]), meta={"scales": scales("signed", "sqrt"), "height": 320, "narrow": 320})
    drawn.update_xaxes(**axis(words["key"], {"type": "category", "showgrid": False, "tickangle": -45}))
    drawn.update_yaxes(**axis(words["query"], {"type": "category", "showgrid": False, "autorange": "reversed"}))
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": "+.2~g"}
    bar["title"] = {"text": plotly_text(words["value"]), "side": "right"}
    return drawn.update_layout(coloraxis={"cmin": -top, "cmax": top, "colorbar": bar})


def histogram_figure(values: np.ndarray, bins: int, words: Mapping[str, str]) -> go.Figure:
    """Draw how many tokens have which activation; the counts are on a log axis. Keys of `words`: `x`, `value`."""
    counts, edges = np.histogram(values, bins)
    middle = [plain(float(each)) for each in (edges[:-1] + edges[1:]) / 2]
    trace = bars(words["value"], middle, np.where(counts, counts, np.nan), BLUE, hover="%{x:.3g}: %{y}")
    more = {"bargap": 0.05, "showlegend": False}
    return figure([trace], axis(words["x"]), axis(words["value"], powers(0.8, max(counts.max(), 2))), more=more)


def jobs_figure(points: np.ndarray, cluster: np.ndarray, hovers: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw outputs of a head along their two principal components, one color and symbol a cluster. points [P, 2]

    Keys of `words`: `cluster`, `x`, `y`.
    """
    traces = []
    for number in range(int(cluster.max(initial=0)) + 1):
        at = np.flatnonzero(cluster == number)
        traces.append(
            go.Scatter(
                x=[plain(float(each), 4) for each in points[at, 0]],
                y=[plain(float(each), 4) for each in points[at, 1]],
                mode="markers",
                name=plotly_text(words["cluster"].format(n=number + 1)),
                marker={"size": 6, "opacity": 0.75, "color": HUES[number], "symbol": SYMBOLS[number]},
                hovertext=[plotly_text(hovers[each]) for each in at.tolist()],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return figure(traces, axis(words["x"]), axis(words["y"]), height=400, more={"hovermode": "closest"})
