"""The figure of the loss as a function of the number of kept keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.charts.lines import guide, line
from viz.labels import plotly_text
from viz.theme import HUES

COLORS = (*HUES[:7], "#5b5bd6", "#8c564b")
DASHES = ("solid", "dash")


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """The loss under one kind of policy, by budget."""

    name: str
    loss: np.ndarray  # [budgets]
    cache: bool  # whether a KV cache can implement the policy; other patterns are dashed


def budget_figure(
    curves: Sequence[BudgetCurve], budgets: Sequence[int], full: float, words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss as a function of the number of kept keys, one line per policy, with a guide at full attention.

    `words`: "kept", "loss", "full".
    """
    hover = f"{plotly_text(words['kept'])}: %{{x:,}}<br>{plotly_text(words['loss'])}: %{{y:.3f}}"
    x = list(budgets)
    lines = [
        line(each.name, x, each.loss, COLORS[n % len(COLORS)], hover=hover, dash=DASHES[not each.cache])
        for n, each in enumerate(curves)
    ]
    lines.insert(0, guide(words["full"], [x[0], x[-1]], [full, full]))
    ticks = {"type": "log", "tickvals": x, "ticktext": [f"{n:,}" for n in x], "tickangle": 0}
    return figure(lines, axis(words["kept"], ticks), axis(words["loss"]), height=460, narrow=560)
