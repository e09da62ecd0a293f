"""The figure of the bug zoo: the loss that each training run reports, and the true loss of its weights."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LEGEND, LOG, axis
from viz.charts.lines import grid, guide, line
from viz.labels import plotly_text
from viz.theme import HUES

HEIGHT, NARROW = 400, 660
LEAST = 1e-3  # losses below this one are drawn here, so that one run does not flatten the others


def curves_figure(
    reported: Mapping[str, np.ndarray],
    true: Mapping[str, np.ndarray],
    looks: Sequence[int],
    guess: float,
    words: Mapping[str, str],
) -> go.Figure:
    """Draw the reported training loss and the true held-out loss side by side, one color per training run.

    `reported`: name -> [steps]; `true`: name -> [S], at the steps `looks`. The first run is drawn thick. Keys of
    `words`: `step`, `reported`, `true`, `guess`.
    """
    sides = {"reported": reported, "true": true}
    panels, across, up = {}, {}, {}
    for side, curves in sides.items():
        hover = f"{plotly_text(words['step'])} %{{x}}<br>{plotly_text(words[side])}: %{{y:.4g}}"
        traces = []
        for at, (name, values) in enumerate(curves.items()):
            x = looks if side == "true" else range(1, len(values) + 1)
            more = {"mode": "lines", "legendgroup": plotly_text(name), "showlegend": side == "reported"}
            y = np.maximum(values, LEAST)
            width = 3.5 if at == 0 else 1.8
            traces.append(line(name, x, y, HUES[(at - 1) % len(HUES)], hover=hover, width=width, more=more))
        chance = guide(words["guess"], [0, looks[-1]], [guess, guess], "dash").update(showlegend=side == "true")
        panels[side] = [*traces, chance]
        across[side], up[side] = axis(words["step"]), axis(words[side], LOG)
    return grid(panels, across, up, height=HEIGHT, narrow=NARROW, legend=LEGEND)
