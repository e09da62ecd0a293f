"""Scores with and without their scaling as pictures: how they spread, and what the softmax makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import axis_name, plotly_text, tick_text
from viz.theme import HUES, frame_layout

BLUE, ORANGE, GREY = HUES[0], HUES[4], "rgba(128,134,150,0.9)"
BINS = 60
MOST_TICKS = 24


@dataclass(frozen=True, eq=False)
class Both:
    """The same numbers with sqrt(d) and with what was chosen instead."""

    trained: np.ndarray
    chosen: np.ndarray


def scores_figure(both: Both, said: Mapping[str, str]) -> str:
    """Histograms of the scores; JSON. `said`: "trained", "chosen", "score", "share"."""
    values = [part[~np.isnan(part)] for part in (both.trained, both.chosen)]
    low, high = min(part.min() for part in values), max(part.max() for part in values)
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    traces = []
    for part, key, colour in zip(values, ("trained", "chosen"), (BLUE, ORANGE), strict=True):
        shares = np.histogram(part, edges)[0] / len(part)
        name = plotly_text(said[key])
        traces.append(
            go.Bar(
                x=((edges[1:] + edges[:-1]) / 2).round(6).tolist(),
                y=shares.round(6).tolist(),
                name=name,
                opacity=0.65,
                marker={"color": colour, "line": {"width": 0}},
                width=float(edges[1] - edges[0]),
                hovertemplate=f"{name}<br>{plotly_text(said['score'])}: %{{x:.2f}}<br>"
                f"{plotly_text(said['share'])}: %{{y:.2%}}<extra></extra>",
            )
        )
    layout = frame_layout({"height": 320, "narrow": 320}) | {
        "xaxis": _axis(said["score"]),
        "yaxis": _axis(said["share"]) | {"tickformat": ".0%"},
        "barmode": "overlay",
        "legend": _LEGEND,
        "bargap": 0,
    }
    return go.Figure(traces, layout).to_json()


def row_figure(both: Both, pieces: Sequence[str], said: Mapping[str, str]) -> str:
    """One row of weights under both scalings; JSON. `said`: "trained", "chosen", "key", "weight"."""
    n = len(both.trained)
    ticks = list(range(0, n, -(-n // MOST_TICKS)))
    traces = [
        go.Bar(
            x=list(range(n)),
            y=[float(f"{p:.6g}") for p in part],
            name=plotly_text(said[key]),
            marker={"color": colour},
            text=[axis_name(i, pieces[i]) for i in range(n)],
            textposition="none",
            customdata=[{"tokens": [i]} for i in range(n)],
            hovertemplate=f"{plotly_text(said[key])}<br>{plotly_text(said['key'])}: %{{text}}<br>"
            f"{plotly_text(said['weight'])}: %{{y:.4f}}<extra></extra>",
        )
        for part, key, colour in ((both.trained, "trained", BLUE), (both.chosen, "chosen", ORANGE))
    ]
    layout = frame_layout({"height": 320, "narrow": 320, "places": True}) | {
        "xaxis": _axis(said["key"])
        | {
            "tickvals": ticks,
            "ticktext": [tick_text(pieces[i]) for i in ticks],
            "tickangle": -60,
            "showgrid": False,
            "range": [-0.6, n - 0.4],
        },
        "yaxis": _axis(said["weight"]) | {"range": [0, 1.02]},
        "legend": _LEGEND,
        "bargap": 0.2,
    }
    return go.Figure(traces, layout).to_json()


def rows_figure(rows: Mapping[str, Both], keys: np.ndarray, pieces: Sequence[str], said: Mapping[str, str]) -> str:
    """Entropy, largest weight and Jacobian of every row, one above the other; JSON.

    `rows`: "entropy", "largest", "jacobian". `said` has a name for each, "trained", "chosen", "query" and "most".
    """
    T, names = len(keys), list(rows)
    x, tokens = list(range(T)), [axis_name(i, pieces[i]) for i in range(T)]
    traces, layout = [], {}
    most = go.Scatter(
        x=x,
        y=np.log(np.maximum(keys, 1)).round(6).tolist(),
        mode="lines",
        name=plotly_text(said["most"]),
        line={"color": GREY, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    for at, name in enumerate(names):
        tail = str(at + 1) if at else ""
        for key, colour in (("trained", BLUE), ("chosen", ORANGE)):
            values = getattr(rows[name], key)
            traces.append(
                go.Scatter(
                    x=x,
                    y=[None if np.isnan(value) else float(f"{value:.6g}") for value in values],
                    text=tokens,
                    mode="lines+markers" if T <= 128 else "lines",
                    name=plotly_text(said[key]),
                    yaxis=f"y{tail}",
                    legendgroup=key,
                    showlegend=at == 0,
                    customdata=[{"tokens": [i]} for i in x],
                    line={"color": colour, "width": 2},
                    marker={"size": 5, "color": colour},
                    hovertemplate=f"{plotly_text(said[key])}<br>{plotly_text(said['query'])}: %{{text}}<br>"
                    f"{plotly_text(said[name])}: %{{y:.4f}}<extra></extra>",
                )
            )
        low = 1 - (at + 1) / len(names)
        layout[f"yaxis{tail}"] = _axis(said[name]) | {
            "domain": [low + (0.04 if at < len(names) - 1 else 0), 1 - at / len(names) - 0.02],
            "rangemode": "tozero",
            "anchor": "x",
        }
    ticks = list(range(0, T, -(-T // MOST_TICKS)))
    layout["xaxis"] = _axis(said["query"]) | {
        "tickvals": ticks,
        "ticktext": [tick_text(pieces[i]) for i in ticks],
        "tickangle": -60,
        "showgrid": False,
        "range": [-0.6, T - 0.4],
        "anchor": f"y{len(names)}",
    }
    meta = {"height": 560, "narrow": 560, "places": True}
    return go.Figure([most, *traces], frame_layout(meta) | layout | {"legend": _LEGEND}).to_json()


def random_figure(sizes: Sequence[int], rows: Mapping[str, tuple], said: Mapping[str, str]) -> str:
    """Variance, entropy, largest weight and Jacobian against the size of random vectors; JSON.

    `rows`: name -> (without scaling, with it), by size. `said` has a name for each, "without", "with" and "size".
    """
    names, traces, layout = list(rows), [], {}
    for at, name in enumerate(names):
        tail = str(at + 1) if at else ""
        for key, values, colour in (("with", rows[name][1], BLUE), ("without", rows[name][0], ORANGE)):
            traces.append(
                go.Scatter(
                    x=list(sizes),
                    y=[float(f"{value:.6g}") for value in values],
                    mode="lines+markers",
                    name=plotly_text(said[key]),
                    legendgroup=key,
                    showlegend=at == 0,
                    yaxis=f"y{tail}",
                    xaxis=f"x{tail}",
                    line={"color": colour, "width": 2.5},
                    marker={"size": 8, "color": colour},
                    hovertemplate=f"{plotly_text(said[key])}<br>{plotly_text(said['size'])}: %{{x:,}}<br>"
                    f"{plotly_text(said[name])}: %{{y:.4g}}<extra></extra>",
                )
            )
    for stacked in (False, True):
        layout[stacked] = _grid(names, sizes, said, stacked)
    meta = {"height": 560, "narrow": 900, "stacked": layout[True]}
    return go.Figure(traces, frame_layout(meta) | layout[False] | {"legend": _LEGEND}).to_json()


def _grid(names: Sequence[str], sizes: Sequence[int], said: Mapping[str, str], stacked: bool) -> dict:
    """Axes of panels two a row, or one below the other on a narrow page."""
    columns = 1 if stacked else 2
    rows, found = -(-len(names) // columns), {}
    gap = 0.2 / rows if stacked else 0.15
    height = (1 - gap * (rows - 1)) / rows
    for at, name in enumerate(names):
        tail = str(at + 1) if at else ""
        top = 1 - (at // columns) * (height + gap)
        across = [0, 1] if stacked else [0, 0.44] if at % 2 == 0 else [0.56, 1]
        found[f"xaxis{tail}"] = _axis(said["size"]) | {
            "type": "log",
            "domain": across,
            "anchor": f"y{tail}",
            "tickvals": list(sizes),
            "tickangle": 0,
            "ticktext": [f"{n:,}" for n in sizes],
        }
        found[f"yaxis{tail}"] = (
            _axis(said[name])
            | {"domain": [max(0.0, top - height), top], "anchor": f"x{tail}"}
            | ({"type": "log", "dtick": 1} if name == "variance" else {"rangemode": "tozero"})
        )
    return found


_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}


def _axis(title: str) -> dict:
    return {"title": {"text": plotly_text(title), "standoff": 8}, "automargin": True, "zeroline": False}
