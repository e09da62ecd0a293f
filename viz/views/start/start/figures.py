"""The figure of the Start view: the probability of every token of the vocabulary, by rank."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.charts.axes import BLUE, LEGEND, ORANGE, axis, figure, powers
from viz.charts.lines import HOVER_TEXT, line
from viz.labels import plotly_text, shorten, visible
from viz.numbers import percent, whole

LEAST = 1e-12  # smallest probability on the axis
HIGH = 270  # height in pixels
SHORT = 14  # maximum number of characters of a token's name
Point = tuple[str, int, float]  # (text of the token, its rank, its probability)


def ranked_figure(
    points: Sequence[Point], marks: Sequence[Point], watched: Sequence[Point], words: Mapping[str, str]
) -> go.Figure:
    """Draw the probability by rank on logarithmic axes, with the top tokens `marks` and the `watched` ones on it.

    `points` run from rank 1 to the last one. `words`: curve, likely, watched, rank, share, hover with {token}, {rank}
    and {share}.
    """
    traces = [_points(words, "curve", points, BLUE, {"mode": "lines"})]
    for name, chosen, color, symbol in (("likely", marks, BLUE, "circle"), ("watched", watched, ORANGE, "diamond")):
        look = {"symbol": symbol, "size": 9, "color": color, "line": {"color": "#fff", "width": 1}}
        more = {"mode": "markers", "marker": look, "cliponaxis": False}
        if chosen:
            traces.append(_points(words, name, chosen, color, more))
    shares = [share for *_, share in (*points, *watched)]
    low, last = math.log10(max(min(shares), LEAST)), points[-1][1]
    across = axis(words["rank"], powers(1, last) | {"range": [-0.06, math.log10(last) + 0.04]})
    up = axis(words["share"], powers(10**low, 1, most=5) | {"range": [low - 0.2, math.log10(max(shares)) + 1]})
    names = [_label(*point, below=False) for point in marks if point[1] == 1]
    names += [_label(*point, below=True) for point in watched]
    more = {"hovermode": "closest", "showlegend": True, "legend": LEGEND, "annotations": names}
    return figure(traces, across, up, height=HIGH, narrow=HIGH, more=more)


def _label(piece: str, rank: int, share: float, *, below: bool) -> dict[str, object]:
    """Write a token's name above its point, or below it."""
    place = (
        {"yanchor": "top", "yshift": -6}
        if below
        else {"xanchor": "left", "xshift": -4, "yanchor": "bottom", "yshift": 4}
    )
    at = {"x": math.log10(rank), "y": math.log10(max(share, LEAST))}
    return {"text": plotly_text(shorten(visible(piece), SHORT)), "showarrow": False, **at, **place}


def _points(
    words: Mapping[str, str], name: str, points: Sequence[Point], color: str, more: Mapping[str, object]
) -> go.Scatter:
    """Draw one series; its hovers name the token."""
    names = [shorten(visible(piece), SHORT) for piece, *_ in points]
    hovers = [
        plotly_text(words["hover"].format(token=label, rank=whole(rank), share=percent(share)))
        for label, (_, rank, share) in zip(names, points, strict=True)
    ]
    texts = {"text": [plotly_text(label) for label in names], "hovertext": hovers, "hovertemplate": HOVER_TEXT}
    x, y = [rank for _, rank, _ in points], [share for *_, share in points]
    return line(words[name], x, y, color, hover="", width=2.5, more=texts | dict(more))
