"""Figure of tokens followed through a prompt."""

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
from viz.views.predictions.figures import HOVERTEXT, fill_template, token_texts

SHOWN = ("probability", "logit", "rank")  # quantities of a followed token that can be drawn


@dataclass(frozen=True, eq=False)
class FollowedToken:
    """A followed token: its name, and its logit, probability and rank after every position. Each array is [T]."""

    name: str
    token: int
    logit: np.ndarray
    probability: np.ndarray
    rank: np.ndarray


def follow_figure(
    lines: Sequence[FollowedToken], shown: str, pieces: Sequence[str], ids: np.ndarray, words: Mapping[str, str]
) -> go.Figure:
    """Draw the quantity `shown` after every position, one line per token, with diamonds where the token comes next.

    `shown` is one of SHOWN. ids [T]. Keys of `words`: `axis_after`, `axis_<shown>`, `next`, and `hover`, a template
    with
    {token}, {position}, {after}, {share}, {logit}, {rank}.
    """
    T, names = len(pieces), token_texts(pieces)
    traces: list[go.Scatter] = []
    for n, each in enumerate(lines):
        is_next = [*(ids[1:] == each.token).tolist(), False]
        hue, more = HUES[n % len(HUES)], {"hovertext": _hovers(each, names, is_next, words), "hovertemplate": HOVERTEXT}
        more |= {"customdata": token_data(T)}
        y = getattr(each, shown)
        width = 2 if T <= MARKED else 1.2
        traces.append(line(each.name, range(T), y, hue, hover="", text=names, width=width, more=more))
        positions = [t for t in range(T) if is_next[t]]
        mark = {"color": hue, "size": 13, "symbol": "diamond"}
        marks = {"mode": "markers", "hoverinfo": "skip", "hovertemplate": None, "showlegend": False, "marker": mark}
        traces.append(line("", positions, y[positions], hue, hover="", more=marks))
    power = math.log10(max(10, *(int(each.rank.max()) for each in lines)))
    scale = {
        "probability": {"rangemode": "tozero", "tickformat": ".3~p"},
        "rank": {
            "type": "log",
            "range": [1.05 * power, -0.05 * power],  # rank 1 at the top
            "dtick": 1,
        },
        "logit": {},
    }[shown]
    x, y_axis = token_axis(words["axis_after"], pieces), axis(words[f"axis_{shown}"], scale)
    more = {"showlegend": True, "hovermode": "closest"}
    return figure(traces, x, y_axis, height=400, narrow=340, meta={"places": True}, more=more)


def _hovers(each: FollowedToken, names: Sequence[str], is_next: Sequence[bool], words: Mapping[str, str]) -> list[str]:
    """Format the hover text of each point of a line. is_next [T]: whether the token comes next at each position"""
    rows = zip(each.probability.tolist(), each.rank.tolist(), each.logit.tolist(), strict=True)
    hovers = []
    for t, (share, rank, value) in enumerate(rows):
        values = {"token": plotly_text(each.name), "after": names[t], "position": t}
        values |= {"share": percent(share), "rank": whole(rank), "logit": logit(value)}
        hovers.append(
            fill_template(words["hover"], values) + (f"<br>{plotly_text(words['next'])}" if is_next[t] else "")
        )
    return hovers
