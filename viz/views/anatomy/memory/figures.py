"""Memory, stacked, as a function of context length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.labels import plotly_text
from viz.numbers import size, size_unit
from viz.theme import HUES, frame_layout
from viz.views.anatomy.figures import BELOW, band, outlined, vertical_line

HEIGHT = 420
COLORS = {
    "weights": HUES[0],
    "gradients": HUES[3],
    "optimizer": HUES[4],
    "state": HUES[5],
    "cache": HUES[2],
    "activations": HUES[1],
}


@dataclass(frozen=True)
class Band:
    """One kind of memory, in bytes at every context length."""

    key: str  # a key of `COLORS`
    name: str
    values: Sequence[int]


def memory_figure(
    x: Sequence[int], bands: Sequence[Band], budgets: Mapping[str, int], current: int, words: Mapping[str, str]
) -> go.Figure:
    """Draw bytes as a function of context length, with lines at nearby budgets and at the context length `current`.

    `words`: "context", "size", "tokens", "here".
    """
    shown = [each for each in bands if max(each.values) > 0]
    top = max(map(sum, zip(*(each.values for each in shown), strict=True)))
    (scale, unit), tokens = size_unit(top), plotly_text(words["tokens"])
    traces = [
        band(each.name, x, [n / scale for n in each.values], COLORS[each.key], [size(n) for n in each.values], tokens)
        for each in shown
    ]
    near = {name: nbytes / scale for name, nbytes in budgets.items() if top / 20 < nbytes < 1.5 * top}
    highest = 1.06 * max([top / scale, *near.values()])
    horizontal = {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1}
    lines = [horizontal | {"y0": y, "y1": y, "line": style} for y in near.values() for style in outlined("dash")]
    left = {"xref": "paper", "x": 0.01, "xanchor": "left"}
    notes = [_note(name, left | {"y": y}) for name, y in near.items()]
    side = "right" if current > x[-1] / 2 else "left"
    notes.append(_note(words["here"], {"yref": "paper", "x": current, "xanchor": side, "y": 1}))
    margin = frame_layout({})["margin"] | {"t": 26}
    return figure(
        traces,
        axis(words["context"], {"range": [0, x[-1]], "tickformat": ",~r"}),
        axis(f"{words['size']} ({unit})", {"range": [0, highest], "tickformat": ",~r"}),
        height=HEIGHT,
        meta={"shapes": lines + vertical_line(current, "dot")},
        more={"legend": BELOW, "annotations": notes, "margin": margin},
    )


def _note(text: str, place: Mapping[str, object]) -> dict:
    return {"yanchor": "bottom", "text": plotly_text(text), "showarrow": False, "font": {"size": 11}, **place}
