"""Figures of the layer sweep: a heatmap of layers and matrices, and curves over the layers."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import ZERO, axis, figure, layer_axis, ticks
from viz.charts.lines import line
from viz.labels import plotly_text
from viz.theme import HUES, scales

_ROW, _FIXED, _LEAST, _MOST = 18, 130, 300, 760  # heatmap heights in pixels: per layer, fixed, minimum, maximum
_MARKS = 16  # approximate number of labeled layers
_DASHES = ("solid", "dot", "dash")


def heat_figure(z: np.ndarray, parts: Sequence[str], words: Mapping[str, str], *, signed: bool) -> go.Figure:
    """Draw the effect of quantizing one part of one layer at a time, parts across and layers down. z [L, parts]

    The color scale is linear for signed changes, and logarithmic over four powers of ten otherwise. Keys of `words`:
    `layer`, `part`, `value`.
    """
    L = len(z)
    top = float(np.abs(z).max()) or 1.0
    colors = scales("signed" if signed else "size", "linear" if signed else "log")
    layer, part, value = (plotly_text(words[key]) for key in ("layer", "part", "value"))
    heat = go.Heatmap(
        z=z.tolist(),
        x=[plotly_text(name) for name in parts],
        y=list(range(L)),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        hovertemplate=f"{layer} %{{y}}<br>{part}: %{{x}}<br>{value}: %{{z:.3g}}<extra></extra>",
    )
    height = min(max(_FIXED + _ROW * L, _LEAST), _MOST)
    colorbar = {"thickness": 10, "outlinewidth": 0, "tickformat": ".2~g", "title": {"text": value, "side": "right"}}
    low = -top if signed else 0
    x = axis(words["part"], {"type": "category", "side": "bottom", "showgrid": False})
    y = layer_axis(words["layer"], L)
    more = {"coloraxis": {"cmin": low, "cmax": top, "colorbar": colorbar}}
    return figure([heat], x, y, height=height, meta={"scales": colors}, more=more)


def line_figure(columns: Mapping[str, np.ndarray], words: Mapping[str, str], *, signed: bool) -> go.Figure:
    """Draw the effect of quantizing each layer, one line per part; `columns` is {name of the part: values [L]}.

    The vertical axis is logarithmic unless the values are signed. Keys of `words`: `layer`, `value`.
    """
    hover, traces = f"{plotly_text(words['layer'])} %{{x}}: %{{y:.3g}}", []
    for n, (name, each) in enumerate(columns.items()):
        y = [float(v) if signed or v > 0 else np.nan for v in each]
        more = {"mode": "lines+markers", "marker": {"size": 7, "color": HUES[n]}}
        width = 1.5 if n else 2.5
        traces.append(line(name, range(len(y)), y, HUES[n], hover=hover, dash=_DASHES[n % 3], width=width, more=more))
    L = max(len(each) for each in columns.values())
    kind = ZERO if signed else {"type": "log", "tickformat": ".2~g", "nticks": 6}
    x, y = axis(words["layer"], _layers(L)), axis(words["value"], kind)
    return figure(traces, x, y, height=340, narrow=320, more={"showlegend": len(traces) > 1})


def _layers(L: int) -> dict:
    """Build the tick settings of a layer axis that labels about _MARKS of its `L` layers."""
    return {"tickmode": "array", "tickvals": ticks(L, _MARKS)}


def strongest(z: np.ndarray) -> tuple[int, int]:
    """Return the row and column of the value with the largest absolute value. z [L, parts]"""
    row, column = np.unravel_index(int(np.abs(z).argmax()), z.shape)
    return int(row), int(column)


def mildest(values: np.ndarray) -> int:
    """Return the layer with the smallest absolute effect. values [L]"""
    return int(np.abs(values).argmin())
