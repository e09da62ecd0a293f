"""The map of the vocabulary: one point per token, with the found tokens marked by their texts."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, ORANGE, RED, axis, figure
from viz.labels import plotly_text, shorten, visible

_HEIGHT, _NARROW = 560, 420  # pixels
NAMED = 14  # maximum number of points of a series with their text beside them
ROOM = 0.11, 0.04  # shares of the map's width and height that a text takes


def map_figure(
    places: np.ndarray,
    pieces: Sequence[str],
    marked: Mapping[str, Sequence[int]],
    axes: tuple[str, str],
    words: Mapping[str, str],
) -> go.Figure:
    """Draw the places [n, 2] of tokens. `marked` lists the points of a series by its name; `axes` are titles.
    Of texts that would cover each other, those of a later series are kept, and of a series the first.

    Keys of `words`: `all`.
    """
    texts = [plotly_text(shorten(visible(piece), 24)) for piece in pieces]
    traces = [_points(words["all"], places, texts, range(len(texts)), BLUE, 5, 0.3)]
    named = _apart(places, [point for points in reversed(marked.values()) for point in points[:NAMED]])
    for (name, points), color in zip(marked.items(), (ORANGE, RED), strict=True):
        if points:
            traces.append(_points(name, places, texts, points, color, 8, 1.0, named))
    plain = {"showticklabels": False, "showgrid": False} if not axes[0] else {"showgrid": True}
    return figure(
        traces,
        axis(axes[0], plain),
        axis(axes[1], plain),
        height=_HEIGHT,
        narrow=_NARROW,
        more={"hovermode": "closest", "dragmode": "zoom"},
    )


def _apart(places: np.ndarray, points: Sequence[int]) -> list[int]:
    """Choose points whose texts do not cover each other; earlier ones come first."""
    room, chosen = np.ptp(places, axis=0) * ROOM, list[int]()
    for point in points:
        if all((abs(places[point] - places[other]) > room).any() for other in chosen):
            chosen.append(point)
    return chosen


def _points(
    name: str,
    places: np.ndarray,
    texts: Sequence[str],
    points: Sequence[int],
    color: str,
    size: int,
    opacity: float,
    named: Collection[int] = (),
) -> go.Scatter:
    """Draw some of the points; the `named` ones have their texts beside them."""
    at = list(points)
    return go.Scatter(
        x=places[at, 0].astype(np.float32),
        y=places[at, 1].astype(np.float32),
        name=plotly_text(name),
        mode="markers+text" if named else "markers",
        text=[texts[n] if n in named else "" for n in at] if named else None,
        textposition="top center",
        textfont={"size": 13, "weight": 700},
        hovertext=[texts[n] for n in at],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={"color": color, "size": size, "opacity": opacity},
    )
