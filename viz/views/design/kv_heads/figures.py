"""Figures of merged KV heads: which query heads share a KV head, and the effect on the predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, ORANGE, PINK, axis, figure, token_axis, token_names
from viz.charts.lines import bars, line, token_data
from viz.labels import plotly_text
from viz.theme import HUES

COLORS = {"mean": BLUE, "first": ORANGE, "random": PINK}
HEIGHT = 330
MOST_NAMED = 24  # maximum number of boxes in a row for each to show its name


@dataclass(frozen=True)
class Sharing:
    """The KV head of each query head, before and after merging."""

    readers: Sequence[tuple[int, int]]  # KV head (before merging, after merging) of each query head
    layer: int
    head: int  # the selected query head


def _places(readers: Sequence[int]) -> list[float]:
    """Return the x position of each KV head: the mean position of the query heads that read it."""
    return [float(np.mean([i for i, kv in enumerate(readers) if kv == n])) for n in range(max(readers) + 1)]


def sharing_figure(shared: Sharing, words: Mapping[str, str]) -> go.Figure:
    """Draw the query heads in one row, the KV heads they read above it, and at the top the KV heads before merging.

    Keys of `words`: `queries`, `merged`, `original`, `reads`, `made_of`.
    """
    before, after = ([pair[n] for pair in shared.readers] for n in (0, 1))
    query_x, merged_x, own_x = list(range(len(after))), _places(after), _places(before)
    parent = dict(zip(before, after, strict=True))  # {KV head before merging: merged KV head}
    rows = [words["queries"], words["merged"]]
    edges = [_edge([(i, 0), (merged_x[kv], 1)], kv) for i, kv in enumerate(after)]
    if len(own_x) > len(merged_x):
        rows.append(words["original"])
        edges += [_edge([(merged_x[parent[n]], 1), (x, 2)], parent[n]) for n, x in enumerate(own_x)]
    reads = [plotly_text(words["reads"].format(head=f"{shared.layer}.{i}", kv=kv)) for i, kv in enumerate(after)]
    sources = [", ".join(str(n) for n in parent if parent[n] == kv) for kv in range(len(merged_x))]
    merged = [plotly_text(words["made_of"].format(kv=kv, heads=heads)) for kv, heads in enumerate(sources)]
    boxes = [
        _boxes(query_x, 0, "q", after, reads, [{"head": [shared.layer, i]} for i in query_x], shared.head),
        _boxes(merged_x, 1, "kv", list(range(len(merged_x))), merged),
    ]
    if len(rows) == 3:
        boxes.append(_boxes(own_x, 2, "kv", [parent[n] for n in range(len(own_x))], [f"KV {n}" for n in parent]))
    names = {"tickvals": list(range(len(rows))), "ticktext": list(map(plotly_text, rows))}
    return figure(
        edges + boxes,
        {"visible": False, "range": [-0.6, len(after) - 0.4], "fixedrange": True},
        axis("", names | {"showgrid": False, "range": [-0.45, len(rows) - 0.55], "fixedrange": True}),
        height=90 * len(rows) + 20,
        narrow=90 * len(rows),
        more={"showlegend": False, "dragmode": False},
    )


def _edge(ends: Sequence[tuple[float, float]], group: int) -> go.Scatter:
    return go.Scatter(
        x=[x for x, _ in ends],
        y=[y for _, y in ends],
        mode="lines",
        hoverinfo="skip",
        line={"color": HUES[group % len(HUES)], "width": 2},
    )


def _boxes(
    x: Sequence[float],
    y: int,
    name: str,
    groups: Sequence[int],
    hovers: Sequence[str],
    custom: Sequence[dict] | None = None,
    chosen: int = -1,
) -> go.Scatter:
    """Draw one row of boxes, colored by KV head. The box at index `chosen` has a thick border."""
    named, n = len(x) <= MOST_NAMED, len(x)
    size = 24 if n <= 12 else 18 if named else 10
    return go.Scatter(
        x=list(x),
        y=[y] * n,
        mode="markers+text" if named else "markers",
        text=[f"{name}{i}" for i in range(n)],
        textfont={"color": "#ffffff", "size": 11 if n <= 12 else 8},
        hovertext=list(hovers),
        hovertemplate="%{hovertext}<extra></extra>",
        customdata=None if custom is None else list(custom),
        marker={
            "symbol": "square",
            "size": size,
            "color": [HUES[each % len(HUES)] for each in groups],
            "line": {"width": [4 if i == chosen else 0 for i in range(n)], "color": "rgba(128,134,150,1)"},
        },
    )


def damage_figure(
    counts: Sequence[int], curves: Mapping[str, tuple[str, Sequence[float]]], plain: float, words: Mapping[str, str]
) -> go.Figure:
    """Draw a metric as a function of the number of KV heads, one line per way to merge.

    `curves`: {merge: (name, values at `counts`)}. `plain` is the value of the unmodified model, at counts[0]. Keys of
    `words`: `groups`, `value`, `plain`.
    """
    x = [str(n) for n in counts]
    hover = f"{plotly_text(words['groups'])}: %{{x}}<br>{plotly_text(words['value'])}: %{{y:.4f}}"
    traces = [
        line(name, x, values, COLORS[merge], hover=hover, width=2.5, more={"marker": {"size": 9}})
        for merge, (name, values) in curves.items()
    ]
    flat = {"mode": "lines", "hoverinfo": "skip", "hovertemplate": None}
    traces.append(line(words["plain"], x, [plain] * len(x), GRAY, hover="", dash="dot", more=flat))
    x_axis = axis(words["groups"], {"type": "category", "showgrid": False})
    return figure(traces, x_axis, axis(words["value"]), height=HEIGHT)


def where_figure(divergences: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the divergence of the prediction at each position as bars. divergences [T].

    Keys of `words`: `token`, `kl`.
    """
    T = len(divergences)
    hover = f"{plotly_text(words['token'])}: %{{text}}<br>{plotly_text(words['kl'])}: %{{y:.4f}}"
    data = {"customdata": token_data(T)}
    bar = bars(words["kl"], range(T), divergences, BLUE, hover=hover, text=token_names(pieces), more=data)
    y = axis(words["kl"], {"rangemode": "tozero"})
    more = {"showlegend": False, "bargap": 0.15}
    return figure([bar], token_axis(words["token"], pieces), y, height=HEIGHT, meta={"places": True}, more=more)
