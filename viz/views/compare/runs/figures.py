"""Figures of two runs: attention maps on a shared color scale, and a number per head."""

import numpy as np
import plotly.graph_objects as go

from model.records import Tokens
from viz.charts.heatmap import Look, Panel, PatternWords, Window, pattern_figure
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.labels import plotly_text

_MAP = 430  # height of an attention map in pixels


def map_figure(z: np.ndarray, tokens: Tokens, words: PatternWords, kind: str, top: float) -> go.Figure:
    """Draw one map of queries and keys on a color scale that ends at `top`, so that two maps can be compared. z [T, T]

    `kind` as in viz.charts.heatmap.Look.
    """
    window, meta = Window.whole(len(tokens)), {"whole": True, "height": _MAP, "narrow": 344}
    figure = pattern_figure([Panel(words.weight, z)], tokens, words, window, Look(kind), meta=meta)
    signed = kind == "signed"
    shares = [-1, 0, 1] if signed else [0, 0.05, 0.25, 0.5, 1]
    axis = figure.layout.coloraxis
    axis.update(cmin=-top if signed else 0, cmax=top)
    axis.colorbar.update(tickvals=[share * top for share in shares], tickformat=".2~g")
    return figure


def largest(*maps: np.ndarray) -> float:
    """Return the largest absolute value over all maps, the end of their shared color scale; 1 if it would be 0."""
    sizes = [float(np.nanmax(np.abs(z))) for z in maps if np.isfinite(z).any()]
    return max(sizes, default=0.0) or 1.0


def heads_figure(z: np.ndarray, both: tuple[np.ndarray, np.ndarray] | None, words: HeadWords, number: str) -> go.Figure:
    """Draw a number per head. All arrays are [L, H].

    The number is the signed difference A minus B of the two arrays in `both`; if `both` is None, it is a nonnegative
    distance. NaN cells are blank. `number` is the name of the compared metric. A click on a cell selects the head.
    """
    label, z = plotly_text(words.value), z.astype(np.float32)
    if both is None:
        return _as_high(head_figure(z, words, f"{label}: %{{z:.5f}}", signed=False))
    lines = [plotly_text(number), *(f"{run}: %{{customdata[{n}]:.5f}}" for n, run in enumerate("AB"))]
    customdata = np.stack(both, -1).round(6).tolist()
    hover = "<br>".join([*lines, f"{label}: %{{z:+.5f}}"])
    return _as_high(head_figure(z, words, hover, signed=True, customdata=customdata))


def _as_high(figure: go.Figure) -> go.Figure:
    """Set the height to that of the map beside it; on a phone, the height depends on the number of heads."""
    return figure.update_layout(meta={**figure.layout.meta, "height": _MAP})
