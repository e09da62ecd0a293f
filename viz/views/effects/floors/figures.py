"""The figure of a model that is built up part by part: the loss after each part, and what each part adds to it."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, GREEN, ORANGE, PINK, axis, figure, row_axis
from viz.charts.lines import guide, line, rows
from viz.labels import plotly_text
from viz.numbers import nats, signed

COLORS = {"positions": GREEN, "attention": BLUE, "mlp": ORANGE, "raises": PINK}
_ROW, _FIXED = (22, 15), 118  # pixels per row with few and with many parts, and those of axis and legend
_MANY, _LOG = 24, 4  # more parts are drawn closer; a larger ratio of losses is drawn on a logarithmic axis

# Plotly writes powers of ten larger than other labels, so the labels are listed.
_MARKS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
_LOG_AXIS = {"type": "log", "tickvals": list(_MARKS), "ticktext": list(map(str, _MARKS))}


def ladder_figure(
    losses: np.ndarray, kinds: Sequence[str], names: Sequence[str], guess: float, words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss after each part, from top to bottom, with the change that each part makes as a bar.

    `losses`: [parts], in nats. `kinds`: the kind of each part, the first one "embed". `guess`: the loss of guessing.
    Keys of `words`: `positions`, `attention`, `mlp`, `raises`, `loss`, `change`, `guess`, `line`.
    """
    names, changes = [plotly_text(name) for name in names], np.diff(losses)
    loss, change = plotly_text(words["loss"]), plotly_text(words["change"])
    hovers = [f"{name}<br>{loss}: {nats(each)}" for name, each in zip(names, losses, strict=True)]
    full = [f"{hover}<br>{change}: {signed(each)}" for hover, each in zip(hovers[1:], changes, strict=True)]
    traces = []
    series = ["raises" if change > 0 else kind for change, kind in zip(changes, kinds[1:], strict=True)]
    for key, color in COLORS.items():
        if at := [n for n, each in enumerate(series) if each == key]:
            shown, more = [full[n] for n in at], {"base": losses[at].tolist()}
            traces.append(rows(words[key], [names[n + 1] for n in at], changes[at], color, hovers=shown, more=more))
    more = {"hovertext": [hovers[0], *full], "hovertemplate": "%{hovertext}<extra></extra>"}
    traces.append(line(words["line"], losses, range(len(names)), GRAY, hover="", width=1, more=more | {"y": names}))
    ends = guide(words["guess"], [guess, guess], [0, 0], "dash").update(y=[names[0], names[-1]])
    wide = losses.max() > _LOG * losses.min()
    x = axis(words["loss"], _LOG_AXIS if wide else {})
    height = _FIXED + _ROW[len(names) > _MANY] * len(names)
    more = {"barmode": "overlay", "bargap": 0.25}
    return figure([*traces, ends], x, row_axis(names, names), height=height, more=more)
