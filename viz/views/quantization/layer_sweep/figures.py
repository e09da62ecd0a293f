"""The figures of the layer-by-layer sweep: a cell for each layer and matrix, and a line over the layers."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout, scales

_ROW, _FIXED, _LEAST, _MOST = 18, 130, 300, 760  # pixels of a heat map
_MARKS = 16  # layers with a label
_DASHES = ("solid", "dot", "dash")


def heat_figure(z: np.ndarray, parts: Sequence[str], said: Mapping[str, str], *, signed: bool) -> str:
    """What rounding one part of one layer does: parts across, layers down; JSON. z [L, parts]

    Sizes have a logarithmic ramp over four powers of ten, changes with a sign a linear one. `said`: "layer", "part",
    "value".
    """
    L = len(z)
    top = float(np.abs(z).max()) or 1.0
    found = scales("signed" if signed else "size", "linear" if signed else "log")
    layer, part, value = (plotly_text(said[key]) for key in ("layer", "part", "value"))
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
    axis = {"automargin": True, "showgrid": False, "zeroline": False}
    layout = frame_layout({"scales": found, "height": height, "narrow": height}) | {
        "coloraxis": {"colorscale": found["light"], "cmin": -top if signed else 0, "cmax": top, "colorbar": bar},
        "xaxis": axis | {"title": {"text": part, "standoff": 8}, "type": "category", "side": "bottom"},
        "yaxis": axis
        | {
            "title": {"text": layer, "standoff": 8},
            "autorange": "reversed",
            "tickmode": "array",
            "tickvals": list(range(0, L, -(-L // _MARKS))),
        },
    }
    return go.Figure(heat, layout).to_json()


def line_figure(columns: Mapping[str, np.ndarray], said: Mapping[str, str], *, signed: bool) -> str:
    """What rounding a layer does, a line for each part; JSON. [L] each

    The axis is logarithmic unless there are signs. `said`: "layer", "value".
    """
    traces = []
    for n, (name, values) in enumerate(columns.items()):
        label = plotly_text(name)
        traces.append(
            go.Scatter(
                x=list(range(len(values))),
                y=[float(v) if signed or v > 0 else None for v in values],
                name=label,
                mode="lines+markers",
                line={"width": 2.5 if not n else 1.5, "color": HUES[n], "dash": _DASHES[n % 3]},
                marker={"size": 7, "color": HUES[n]},
                hovertemplate=f"{label}<br>{plotly_text(said['layer'])} %{{x}}: %{{y:.3g}}<extra></extra>",
            )
        )
    axis = {"automargin": True, "zeroline": signed}
    L = max(len(values) for values in columns.values())
    kind = {} if signed else {"type": "log", "tickformat": ".2~g", "nticks": 6}
    layout = frame_layout({"height": 340, "narrow": 320}) | {
        "xaxis": axis
        | {
            "title": {"text": plotly_text(said["layer"]), "standoff": 8},
            "zeroline": False,
            "tickmode": "array",
            "tickvals": list(range(0, L, -(-L // _MARKS))),
        },
        "yaxis": axis | {"title": {"text": plotly_text(said["value"]), "standoff": 8}} | kind,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": len(traces) > 1,
    }
    return go.Figure(traces, layout).to_json()


def strongest(z: np.ndarray) -> tuple[int, int]:
    """The row and column of the largest size. [L, parts]"""
    row, column = np.unravel_index(int(np.abs(z).argmax()), z.shape)
    return int(row), int(column)


def mildest(values: np.ndarray) -> int:
    """The layer that bears it best. [L]"""
    return int(np.abs(values).argmin())
