"""Tokens followed through a prompt, as lines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import axis, figure, token_axis
from viz.charts.lines import MARKED, line, token_data
from viz.labels import plotly_text
from viz.numbers import logit, percent, whole
from viz.theme import HUES
from viz.views.predictions.figures import HOVERTEXT, filled, token_texts

SHOWN = ("probability", "logit", "rank")  # what can be drawn of a token that is followed


@dataclass(frozen=True, eq=False)
class Line:
    """A token that is followed: its name, and its chances after every position. [T] each"""

    name: str
    token: int
    logit: np.ndarray
    probability: np.ndarray
    rank: np.ndarray


def follow_figure(
    lines: Sequence[Line], shown: str, pieces: Sequence[str], ids: np.ndarray, words: Mapping[str, str]
) -> go.Figure:
    """Return a line a token: one of SHOWN after every position, diamonds where the token really comes next. ids [T]

    Words: axis_after, axis_<shown>, hover with {token}, {position}, {after}, {share}, {logit}, {rank}; next.
    """
    T, names = len(pieces), token_texts(pieces)
    traces: list[go.Scatter] = []
    for n, each in enumerate(lines):
        comes = [*(ids[1:] == each.token).tolist(), False]
        hue, more = HUES[n % len(HUES)], {"hovertext": _hovers(each, names, comes, words), "hovertemplate": HOVERTEXT}
        more |= {"customdata": token_data(T)}
        y = getattr(each, shown)
        width = 2 if T <= MARKED else 1.2
        traces.append(line(each.name, range(T), y, hue, hover="", text=names, width=width, more=more))
        there = [t for t in range(T) if comes[t]]
        mark = {"color": hue, "size": 13, "symbol": "diamond"}
        marks = {"mode": "markers", "hoverinfo": "skip", "hovertemplate": None, "showlegend": False, "marker": mark}
        traces.append(line("", there, y[there], hue, hover="", more=marks))
    last = math.log10(max(10, *(int(each.rank.max()) for each in lines)))
    scale = {
        "probability": {"rangemode": "tozero", "tickformat": ".3~p"},
        "rank": {"type": "log", "range": [1.05 * last, -0.05 * last], "dtick": 1},  # the first place at the top
        "logit": {},
    }[shown]
    x, y_axis = token_axis(words["axis_after"], pieces), axis(words[f"axis_{shown}"], scale)
    more = {"showlegend": True, "hovermode": "closest"}
    return figure(traces, x, y_axis, height=400, narrow=340, meta={"places": True}, more=more)


def _hovers(each: Line, names: Sequence[str], comes: Sequence[bool], words: Mapping[str, str]) -> list[str]:
    """Return the hover of each point of a line."""
    rows = zip(each.probability.tolist(), each.rank.tolist(), each.logit.tolist(), strict=True)
    hovers = []
    for t, (share, rank, value) in enumerate(rows):
        values = {"token": plotly_text(each.name), "after": names[t], "position": t}
        values |= {"share": percent(share), "rank": whole(rank), "logit": logit(value)}
        hovers.append(filled(words["hover"], values) + (f"<br>{plotly_text(words['next'])}" if comes[t] else ""))
    return hovers
