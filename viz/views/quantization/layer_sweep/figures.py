"""The figures of the layer-by-layer sweep: a cell for each layer and matrix, and a line over the layers."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import ZERO, axis, figure, ticks
from viz.charts.lines import line
from viz.labels import plotly_text
from viz.theme import HUES, scales

_ROW, _FIXED, _LEAST, _MOST = 18, 130, 300, 760  # pixels of a heat map
_MARKS = 16  # layers with a label
_DASHES = ("solid", "dot", "dash")


def heat_figure(z: np.ndarray, parts: Sequence[str], words: Mapping[str, str], *, signed: bool) -> go.Figure:
    """Return the effect of rounding one part of one layer: parts across, layers down. z [L, parts]

    Sizes have a logarithmic ramp over four powers of ten, changes with a sign a linear one. `words`: "layer", "part",
    "value".
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
    bar = {"thickness": 10, "outlinewidth": 0, "tickformat": ".2~g", "title": {"text": value, "side": "right"}}
    low = -top if signed else 0
    x = axis(words["part"], {"type": "category", "side": "bottom", "showgrid": False})
    y = axis(words["layer"], _layers(L) | {"autorange": "reversed", "showgrid": False})
    more = {"coloraxis": {"cmin": low, "cmax": top, "colorbar": bar}}
    return figure([heat], x, y, height=height, meta={"scales": colors}, more=more)


def line_figure(columns: Mapping[str, np.ndarray], words: Mapping[str, str], *, signed: bool) -> go.Figure:
    """Return the effect of rounding a layer, a line for each part. [L] each

    The axis is logarithmic unless there are signs. `words`: "layer", "value".
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
    """Return the labels at some of the layers."""
    return {"tickmode": "array", "tickvals": ticks(L, _MARKS)}


def strongest(z: np.ndarray) -> tuple[int, int]:
    """Return the row and column of the largest size. [L, parts]"""
    row, column = np.unravel_index(int(np.abs(z).argmax()), z.shape)
    return int(row), int(column)


def mildest(values: np.ndarray) -> int:
    """Return the layer that bears it best. [L]"""
    return int(np.abs(values).argmin())
