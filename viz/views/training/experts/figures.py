"""Figures of a mixture of experts: each expert's load by step, and the expert that each token is routed to."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, LEGEND, ORANGE, axis, figure, row_axis, token_axis, token_names
from viz.charts.lines import HOVER_TEXT, grid, guide, line
from viz.labels import plotly_text
from viz.numbers import number, percent
from viz.theme import HUES

HEIGHT, NARROW = 340, 620
FEW_TICKS = 12  # maximum number of labeled tokens on a narrow page
COLORS = (BLUE, ORANGE)  # colors of the runs without and with the load-balancing loss


def _hover(x: str, y: str, form: str) -> str:
    return f"{plotly_text(x)}: %{{x}}<br>{plotly_text(y)}: %{{y:{form}}}"


def loads_figure(
    steps: Sequence[int], loads: Mapping[str, np.ndarray], experts: Sequence[str], words: Mapping[str, str]
) -> go.Figure:
    """Draw every expert's fraction of the routing choices by step, one panel per training run.

    `loads`: one array per training run, [S, N], for S steps and N experts. `words`: "step", "load", "even".
    """
    hover, panels, across, up = _hover(words["step"], words["load"], ".1%"), {}, {}, {}
    for at, (name, shares) in enumerate(loads.items()):
        first = {"showlegend": at == 0}
        lines = [
            line(expert, steps, shares[:, n], HUES[n % len(HUES)], hover=hover, more=first | {"legendgroup": expert})
            for n, expert in enumerate(experts)
        ]
        even = guide(words["even"], [steps[0], steps[-1]], [1 / len(experts)] * 2, "dash")
        panels[name] = [*lines, even.update(showlegend=at == 0)]
        across[name] = axis(f"{words['step']} · {name}")
        up[name] = axis(words["load"], {"range": [-0.03, 1.03], "tickformat": ".0%"})
    return grid(panels, across, up, height=HEIGHT, narrow=NARROW, legend=LEGEND)


def curves_figure(
    steps: Sequence[int], curves: Mapping[str, np.ndarray], words: Mapping[str, str], reference: float | None, form: str
) -> go.Figure:
    """Draw one quantity by step, one line per training run.

    `curves`: one array per training run, [S]. `words`: "step", "value", and "reference", the label of the reference
    line.
    """
    hover = _hover(words["step"], words["value"], form)
    traces = [
        line(name, steps, each, color, hover=hover, width=2.5)
        for (name, each), color in zip(curves.items(), COLORS, strict=True)
    ]
    if reference is not None:
        traces.append(guide(words["reference"], [steps[0], steps[-1]], [reference] * 2, "dash"))
    more = {"rangemode": "tozero"} | ({"tickformat": ".0%"} if form.endswith("%") else {})
    return figure(traces, axis(words["step"]), axis(words["value"], more), height=HEIGHT - 40, narrow=HEIGHT)


def tokens_figure(
    pieces: Sequence[str], rows: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], words: Mapping[str, str]
) -> go.Figure:
    """Draw the first-choice expert of each token, one row per training run and layer.

    The color identifies the expert; a cross marks a token that was dropped because its expert was at capacity. `rows`:
    expert, weight and dropped, [T] each. `words`: "token", "expert" with {n}, "weight", "dropped".
    """
    names, points = token_names(pieces), {}
    for row, (experts, weights, dropped) in rows.items():
        for at, (expert, weight, lost) in enumerate(zip(experts, weights, dropped, strict=True)):
            label = words["expert"].format(n=int(expert))
            weight_line = f"{words['weight']}: {number(float(weight))}"
            lines = [names[at], *map(plotly_text, (row, label, weight_line))]
            lines += [plotly_text(words["dropped"])] if lost else []
            points.setdefault(int(expert), []).append((at, row, "x" if lost else "square", "<br>".join(lines)))
    traces = []
    for expert in sorted(points):
        x, y, symbols, hovers = zip(*points[expert], strict=True)
        color = HUES[expert % len(HUES)]
        marker = {"size": 8 if len(pieces) <= 40 else 6, "color": color, "symbol": list(symbols), "line": {"width": 0}}
        name = plotly_text(words["expert"].format(n=expert))
        shape = {"mode": "markers", "marker": marker, "hovertext": list(hovers), "hovertemplate": HOVER_TEXT}
        traces.append(go.Scatter(x=list(x), y=list(y), name=name, **shape))
    height = 150 + 26 * len(rows)
    up, two_lines = row_axis(list(rows), list(map(plotly_text, rows))), [_halved(plotly_text(row)) for row in rows]
    across = token_axis(words["token"], pieces)
    narrow = {"xaxis": token_axis(words["token"], pieces, limit=FEW_TICKS), "yaxis": row_axis(list(rows), two_lines)}
    return figure(traces, across, up, height=height, narrow=height + 12 * len(rows), meta={"stacked": narrow})


def _halved(text: str) -> str:
    """Break a label with two parts into two lines."""
    return re.sub(r", |，", ",<br>", text, count=1)


def shares(values: Sequence[float]) -> str:
    """Format fractions as percentages, separated by centered dots."""
    return " · ".join(percent(float(each)) for each in values)
