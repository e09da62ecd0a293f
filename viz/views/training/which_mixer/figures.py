"""Figures that compare mixers: scores by size, losses by step, and the cost of decoding."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, LOG, ORANGE, PINK, axis, figure
from viz.charts.lines import guide, line, runs
from viz.labels import plotly_text
from viz.theme import HUES

HEIGHT, NARROW = 360, 420
COLORS = {
    "softmax": BLUE,
    "sliding_window": HUES[5],
    "linear": ORANGE,
    "retention": HUES[1],
    "delta": GREEN,
    "mamba": PINK,
    "mamba2": HUES[4],
}


def _hover(x: str, y: str, value: str = ".4g") -> str:
    return f"{plotly_text(x)}: %{{x}}<br>{plotly_text(y)}: %{{y:{value}}}"


def scores_figure(
    scores: Mapping[str, np.ndarray],
    sizes: Sequence[int],
    names: Mapping[str, str],
    words: Mapping[str, str],
    reference: Sequence[float],
    share: bool,
) -> go.Figure:
    """Draw the score by size: one line per mixer for the mean over seeds, and a small dot for each seed.

    `scores`: one array per mixer, [R, S], for R seeds and S sizes. `words`: "size", "score", "reference", "seed".
    `share`: whether the scores are accuracies; otherwise they are errors, on a logarithmic axis.
    """
    hover, traces = _hover(words["size"], words["score"], ".1%" if share else ".4g"), []
    for key, each in scores.items():
        name, color = names[key], COLORS[key]
        group = {"legendgroup": plotly_text(name)}
        traces.append(line(name, sizes, each.mean(0), color, hover=hover, width=2.5, more=group))
        for seed, row in enumerate(each):
            point = {"mode": "markers", "marker": {"size": 4, "color": color, "opacity": 0.45}, "showlegend": False}
            label = f"{name}, {words['seed'].format(n=seed)}"
            traces.append(line(label, sizes, row, color, hover=hover, more=point | group))
    traces.append(guide(words["reference"], sizes, reference, "dash"))
    up = axis(words["score"], {"range": [-0.03, 1.03], "tickformat": ".0%"} if share else LOG)
    return figure(traces, axis(words["size"], {"tickvals": list(sizes)}), up, height=HEIGHT, narrow=NARROW)


def losses_figure(losses: Mapping[str, np.ndarray], names: Mapping[str, str], words: Mapping[str, str]) -> go.Figure:
    """Draw the loss by step: for each mixer the mean over seeds, and the range of the seeds as a band.

    `losses`: one array per mixer, [R, steps], for R seeds. `words`: "step", "loss".
    """
    hover, traces = _hover(words["step"], words["loss"]), []
    for key, each in losses.items():
        at = range(1, each.shape[1] + 1)
        traces += runs(names[key], at, each, COLORS[key], hover=hover, more={"mode": "lines"})
    return figure(traces, axis(words["step"]), axis(words["loss"]), height=HEIGHT, narrow=NARROW)


def costs_figure(
    costs: Mapping[str, np.ndarray],
    tokens: Sequence[int],
    names: Mapping[str, str],
    words: Mapping[str, str],
    log: bool,
) -> go.Figure:
    """Draw the cost of decoding by the number of preceding tokens, one line per mixer.

    `log`: whether the cost axis is logarithmic; otherwise it starts at 0. `words`: "tokens", "cost".
    """
    hover = _hover(words["tokens"], words["cost"])
    traces = [line(names[key], tokens, each, COLORS[key], hover=hover, width=2.5) for key, each in costs.items()]
    ticks = {"tickvals": list(tokens), "ticktext": [f"{each:,}" for each in tokens]}
    x = axis(words["tokens"], {**LOG, **ticks})
    return figure(traces, x, axis(words["cost"], LOG if log else {"rangemode": "tozero"}), height=HEIGHT, narrow=NARROW)
