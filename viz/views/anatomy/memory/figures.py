"""Bytes that have to be held, stacked, against the context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout
from viz.views.anatomy.compute.figures import DARK, upright
from viz.views.sampling.kv_cache.figures import UNITS, told_bytes

HEIGHT = 420
POINTS = 65
COLOURS = {
    "weights": HUES[0],
    "gradients": HUES[3],
    "optimizer": HUES[4],
    "cache": HUES[2],
    "activations": HUES[1],
}
_DASHED = ({"width": 2.5, "color": DARK}, {"width": 1.5, "color": "#ffffff", "dash": "dash"})


@dataclass(frozen=True)
class Layer:
    """One kind of memory: its bytes at every context."""

    key: str  # of COLOURS
    name: str
    values: Sequence[int]


def contexts(longest: int) -> list[int]:
    """Whole numbers of tokens from 1 to the longest."""
    return np.unique(np.linspace(1, longest, POINTS).round().astype(int)).tolist()


def memory_figure(
    x: Sequence[int], layers: Sequence[Layer], budgets: Mapping[str, int], here: int, said: Mapping[str, str]
) -> str:
    """Bytes against context, with a line at every budget that is near, and one at the context `here`; JSON.

    `said`: "context", "size", "tokens", "here".
    """
    shown = [layer for layer in layers if max(layer.values) > 0]
    top = max(sum(values) for values in zip(*(layer.values for layer in shown), strict=True))
    unit = max(0, min(len(UNITS) - 1, int(np.log10(max(top, 1)) // 3)))
    scale, tokens = 1000**unit, plotly_text(said["tokens"])
    traces = []
    for layer in shown:
        label = plotly_text(layer.name)
        traces.append(
            go.Scatter(
                x=list(x),
                y=[value / scale for value in layer.values],
                name=label,
                mode="lines",
                stackgroup="all",
                line={"width": 0.5, "color": COLOURS[layer.key]},
                fillcolor=COLOURS[layer.key],
                text=[told_bytes(value) for value in layer.values],
                hovertemplate=f"{label}<br>%{{x:,}} {tokens}: %{{text}}<extra></extra>",
            )
        )
    near = {name: size for name, size in budgets.items() if top / 20 < size < 1.5 * top}
    highest = 1.06 * max([top, *near.values()]) / scale
    across = {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1}
    lines = [
        across | {"y0": size / scale, "y1": size / scale, "line": line} for size in near.values() for line in _DASHED
    ] + upright(here, "dot")
    notes = [
        {
            "xref": "paper",
            "x": 0.01,
            "xanchor": "left",
            "y": size / scale,
            "yanchor": "bottom",
            "text": plotly_text(name),
            "showarrow": False,
            "font": {"size": 11},
        }
        for name, size in near.items()
    ]
    notes.append(
        {
            "yref": "paper",
            "x": here,
            "xanchor": "right" if here > x[-1] / 2 else "left",
            "y": 1,
            "yanchor": "bottom",
            "text": plotly_text(said["here"]),
            "showarrow": False,
            "font": {"size": 11},
        }
    )
    axis, layout = (
        {"automargin": True, "zeroline": False},
        frame_layout({"height": HEIGHT, "narrow": HEIGHT, "shapes": lines}),
    )
    layout |= {
        "xaxis": axis
        | {"title": {"text": plotly_text(said["context"]), "standoff": 8}, "range": [0, x[-1]], "tickformat": ",~r"},
        "yaxis": axis
        | {
            "title": {"text": f"{plotly_text(said['size'])} ({UNITS[unit]})", "standoff": 8},
            "range": [0, highest],
            "tickformat": ",~r",
        },
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        "annotations": notes,
        "margin": layout["margin"] | {"t": 26},
    }
    return go.Figure(traces, layout).to_json()
