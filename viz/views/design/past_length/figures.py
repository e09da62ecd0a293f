"""Loss by position, within the trained length and beyond it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT, NARROW = 440, 420
GREY = "rgba(128,134,150,0.9)"


@dataclass(frozen=True, eq=False)
class Line:
    """One scheme: its name, and mean loss and standard error of each bucket of positions, [K] each."""

    name: str
    loss: np.ndarray
    error: np.ndarray  # NaN where there is one window only


def signed(value: float) -> str:
    """A difference with its sign, three decimals."""
    return f"{value:+.3f}".replace("-", "−")


def loss_figure(lines: Sequence[Line], ends: Sequence[int], trained: int, said: Mapping[str, str]) -> str:
    """Loss against position with a band of one standard error, a line where the trained length ends; JSON.

    The first line is the reference. `said`: "position", "loss" (what is shown), "positions", "trained", "error".
    """
    middles = [(a + b - 1) / 2 for a, b in pairwise(ends)]
    spans = [f"{a:,}–{b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(ends)]
    traces, bands = [], []
    for n, line in enumerate(lines):
        colour = HUES[7] if n == 0 else HUES[(n - 1) % 7]
        name = plotly_text(line.name)
        if np.isfinite(line.error).any():
            bands.append(_band(middles, line, colour))
        hovers = [
            f"{name}<br>{plotly_text(said['positions'])} {span}<br>{loss:.3f}"
            + (f" ± {error:.3f} ({plotly_text(said['error'])})" if np.isfinite(error) else "")
            for span, loss, error in zip(spans, line.loss, line.error, strict=True)
        ]
        traces.append(
            {
                "type": "scatter",
                "x": middles,
                "y": [float(v) if np.isfinite(v) else None for v in line.loss],
                "name": name,
                "text": spans,
                "mode": "lines",
                "hovertext": hovers,
                "hovertemplate": "%{hovertext}<extra></extra>",
                "line": {"color": colour, "width": 4 if n == 0 else 2.25},
            }
        )
    meta: dict = {"height": HEIGHT, "narrow": NARROW}
    notes = []
    if trained < ends[-1]:
        at = trained - 0.5
        meta["shapes"] = [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "line": {"color": GREY, "width": 2, "dash": "dash"},
            }
        ]
        notes = [
            {
                "x": at,
                "y": 1,
                "xref": "x",
                "yref": "paper",
                "xanchor": "right",
                "yanchor": "top",
                "xshift": -6,
                "showarrow": False,
                "text": plotly_text(said["trained"]),
            }
        ]
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout(meta) | {
        "xaxis": axis
        | {"title": {"text": plotly_text(said["position"]), "standoff": 8}, "tickformat": ",", "range": [0, ends[-1]]},
        "yaxis": axis | {"title": {"text": plotly_text(said["loss"]), "standoff": 8}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "annotations": notes,
    }
    return go.Figure({"data": [*bands, *traces], "layout": layout}).to_json()


def _band(x: Sequence[float], line: Line, colour: str) -> dict:
    """One standard error up and down."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    high, low = (line.loss + line.error).tolist(), (line.loss - line.error).tolist()
    return {
        "type": "scatter",
        "x": [*x, *x[::-1]],
        "y": [*high, *low[::-1]],
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"rgba({red},{green},{blue},0.14)",
        "hoverinfo": "skip",
        "showlegend": False,
    }
