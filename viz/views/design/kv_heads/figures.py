"""Shared KV heads as pictures: who reads which head, what fewer of them do to the predictions, and where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import axis_name, plotly_text, tick_text
from viz.theme import HUES, frame_layout

BLUE, ORANGE, GREY = HUES[0], HUES[4], "rgba(128,134,150,0.9)"
COLOURS = {"mean": BLUE, "first": ORANGE, "random": HUES[3]}
MOST_NAMED = 24  # boxes a row that have their name in them
MOST_TICKS = 24


@dataclass(frozen=True)
class Sharing:
    """Which KV head each query head reads: [(in the model, after merging)], by query head."""

    readers: Sequence[tuple[int, int]]
    layer: int
    head: int  # the one that is looked at


def _places(readers: Sequence[int]) -> list[float]:
    """Where each KV head stands: above the middle of the query heads that read it."""
    return [float(np.mean([i for i, kv in enumerate(readers) if kv == n])) for n in range(max(readers) + 1)]


def sharing_figure(shared: Sharing, said: Mapping[str, str]) -> str:
    """Query heads below, the KV heads they read above, and over those the heads of the model they were made of; JSON.

    `said`: "queries", "merged", "original", "reads", "made_of".
    """
    before, after = ([pair[n] for pair in shared.readers] for n in (0, 1))
    query_x, merged_x, own_x = list(range(len(after))), _places(after), _places(before)
    parent = dict(zip(before, after, strict=True))  # KV head of the model -> the one it went into
    rows = [(said["queries"], 0), (said["merged"], 1)]
    lines = [_line([(i, 0), (merged_x[kv], 1)], kv) for i, kv in enumerate(after)]
    if len(own_x) > len(merged_x):
        rows.append((said["original"], 2))
        lines += [_line([(merged_x[parent[n]], 1), (x, 2)], parent[n]) for n, x in enumerate(own_x)]
    reads = [plotly_text(said["reads"].format(head=f"{shared.layer}.{i}", kv=kv)) for i, kv in enumerate(after)]
    made = [
        plotly_text(said["made_of"].format(kv=kv, heads=", ".join(str(n) for n in parent if parent[n] == kv)))
        for kv in range(len(merged_x))
    ]
    boxes = [
        _boxes(query_x, 0, "q", after, reads, [{"head": [shared.layer, i]} for i in query_x], shared.head),
        _boxes(merged_x, 1, "kv", list(range(len(merged_x))), made),
    ]
    if len(rows) == 3:
        boxes.append(_boxes(own_x, 2, "kv", [parent[n] for n in range(len(own_x))], [f"KV {n}" for n in parent]))
    layout = frame_layout({"height": 90 * len(rows) + 20, "narrow": 90 * len(rows)}) | {
        "xaxis": {"visible": False, "range": [-0.6, len(after) - 0.4], "fixedrange": True},
        "yaxis": {
            "tickvals": [y for _, y in rows],
            "ticktext": [plotly_text(name) for name, _ in rows],
            "showgrid": False,
            "range": [-0.45, len(rows) - 0.55],
            "zeroline": False,
            "automargin": True,
            "fixedrange": True,
        },
        "showlegend": False,
        "dragmode": False,
    }
    return go.Figure(lines + boxes, layout).to_json()


def _line(ends: Sequence[tuple[float, float]], group: int) -> go.Scatter:
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
    """One row of boxes, coloured by the KV head they belong to."""
    named, n = len(x) <= MOST_NAMED, len(x)
    size = 24 if n <= 12 else 18 if named else 10
    return go.Scatter(
        x=list(x),
        y=[y] * n,
        mode="markers+text" if named else "markers",
        text=[f"{name}{i}" for i in range(n)],
        textfont={"color": "#ffffff", "size": 10 if n <= 12 else 8},
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
    counts: Sequence[int], curves: Mapping[str, tuple[str, Sequence[float]]], plain: float, said: Mapping[str, str]
) -> str:
    """A number a count of KV heads, a line a way to merge; JSON. `curves`: merge -> (name, values of `counts`).

    `plain` is the number of the model as it is, at counts[0]. `said`: "groups", "value", "plain".
    """
    x, traces = [str(n) for n in counts], []
    for merge, (name, values) in curves.items():
        label = plotly_text(name)
        traces.append(
            go.Scatter(
                x=x,
                y=list(values),
                name=label,
                mode="lines+markers",
                line={"color": COLOURS[merge], "width": 2.5},
                marker={"size": 9, "color": COLOURS[merge]},
                hovertemplate=f"{label}<br>{plotly_text(said['groups'])}: %{{x}}<br>"
                f"{plotly_text(said['value'])}: %{{y:.4f}}<extra></extra>",
            )
        )
    traces.append(
        go.Scatter(
            x=x,
            y=[plain] * len(x),
            name=plotly_text(said["plain"]),
            mode="lines",
            hoverinfo="skip",
            line={"color": GREY, "width": 2, "dash": "dot"},
        )
    )
    layout = frame_layout({"height": 330, "narrow": 330}) | {
        "xaxis": {"type": "category", "title": _title(said["groups"]), "automargin": True, "showgrid": False},
        "yaxis": {"title": _title(said["value"]), "automargin": True, "zeroline": False},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(traces, layout).to_json()


def where_figure(divergences: np.ndarray, pieces: Sequence[str], said: Mapping[str, str]) -> str:
    """The divergence of the prediction after every token, as bars; JSON. `said`: "token", "kl"."""
    T = len(divergences)
    ticks, token, kl = list(range(0, T, -(-T // MOST_TICKS))), plotly_text(said["token"]), plotly_text(said["kl"])
    bar = go.Bar(
        x=list(range(T)),
        y=[float(f"{value:.6g}") for value in divergences],
        marker={"color": BLUE},
        text=[axis_name(i, pieces[i]) for i in range(T)],
        textposition="none",
        customdata=[{"tokens": [i]} for i in range(T)],
        hovertemplate=f"{token}: %{{text}}<br>{kl}: %{{y:.4f}}<extra></extra>",
    )
    layout = frame_layout({"height": 330, "narrow": 330, "places": True}) | {
        "xaxis": {
            "title": _title(said["token"]),
            "tickvals": ticks,
            "ticktext": [tick_text(pieces[i]) for i in ticks],
            "tickangle": -60,
            "automargin": True,
            "showgrid": False,
            "range": [-0.6, T - 0.4],
        },
        "yaxis": {"title": _title(said["kl"]), "automargin": True, "rangemode": "tozero", "zeroline": False},
        "showlegend": False,
        "bargap": 0.15,
    }
    return go.Figure([bar], layout).to_json()


def difference(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """What merging changed of a pattern: after - before, NaN above the diagonal. float32 [T, T]"""
    return np.where(np.tri(len(after), dtype=bool), after - before, np.float32(np.nan))


def past(pattern: np.ndarray) -> np.ndarray:
    """A pattern with NaN above the diagonal. [T, T]"""
    return np.where(np.tri(len(pattern), dtype=bool), pattern, np.float32(np.nan))


def moved(before: np.ndarray, after: np.ndarray) -> float:
    """Share of its attention that a row moved elsewhere, mean over rows after the first: half of sum |A' - A|."""
    rows = 0.5 * np.abs(np.nan_to_num(after - before)).sum(1)
    return float(rows[1:].mean()) if len(rows) > 1 else 0.0


def _title(text: str) -> dict:
    return {"text": plotly_text(text), "standoff": 8}
