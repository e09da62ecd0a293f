"""Pictures of MLPs side by side: the functions inside them, a gate, and losses with a band over seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, SIGNED_RAMPS, colorscale, frame_layout
from viz.views.design.norms_residuals.figures import Axes, Drawn, lines_figure

COLOURS = {"swiglu": HUES[0], "gelu": HUES[4], "relu": HUES[2]}
FUNCTION_COLOURS = {"relu": HUES[2], "gelu": HUES[4], "gelu_tanh": HUES[1], "silu": HUES[0]}
_DASHES = {"gelu_tanh": "dot"}
HEIGHT = 340


def functions_figure(
    x: np.ndarray, found: Mapping[str, np.ndarray], which: int, axes: Axes, names: Sequence[str]
) -> str:
    """Each function, or with `which` 1 its derivative. x [P], found: [2, P] each; names in the order of found; JSON."""
    drawn = [
        Drawn(name, FUNCTION_COLOURS[key], x.tolist(), values[which], None, _DASHES.get(key, "solid"))
        for (key, values), name in zip(found.items(), names, strict=True)
    ]
    return lines_figure(drawn, axes)


def largest_gap(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The largest difference of two functions, and where it lies. [P] each"""
    at = int(np.abs(first - second).argmax())
    return float(abs(first[at] - second[at])), float(x[at])


def gate_figure(x: np.ndarray, values: np.ndarray, said: Mapping[str, str]) -> str:
    """silu(gate) * up over both branches, blue and orange for the signs. values [up, gate]; JSON.

    `said`: "gate", "up", "passed".
    """
    scales = {name: colorscale(stops, "linear") for name, stops in SIGNED_RAMPS.items()}
    top = float(np.abs(values).max())
    gate, up, passed = (plotly_text(said[key]) for key in ("gate", "up", "passed"))
    heat = go.Heatmap(
        z=values.astype(np.float32),
        x=x.tolist(),
        y=x.tolist(),
        coloraxis="coloraxis",
        hovertemplate=f"{gate}: %{{x:.2f}}<br>{up}: %{{y:.2f}}<br>{passed}: %{{z:.4g}}<extra></extra>",
    )
    axis = {"automargin": True, "zeroline": False, "showgrid": False}
    layout = frame_layout({"scales": scales, "height": HEIGHT, "narrow": HEIGHT}) | {
        "coloraxis": {
            "colorscale": scales["light"],
            "cmin": -top,
            "cmax": top,
            "colorbar": {"thickness": 10, "len": 1, "outlinewidth": 0, "title": {"text": passed, "side": "right"}},
        },
        "xaxis": axis | {"title": {"text": gate, "standoff": 8}},
        "yaxis": axis | {"title": {"text": up, "standoff": 8}},
    }
    return go.Figure([heat], layout).to_json()


def slices(x: np.ndarray, values: np.ndarray, at: Sequence[float]) -> list[np.ndarray]:
    """The rows of a gate whose second branch is nearest to each number. x [P], values [up, gate]"""
    return [values[int(np.abs(x - each).argmin())] for each in at]
