"""A map of layers and heads: one cell a head, its colour a number."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import frame, scales

_NARROW = 120, 26, 300, 620  # height in pixels: of the axes, of a head, least, most


@dataclass(frozen=True)
class EffectWords:
    """The words on a map of effects, in the reader's language."""

    layer: str
    head: str
    value: str  # what a cell's number is
    unit: str


def effect_figure(effects: np.ndarray, words: EffectWords, *, signed: bool) -> go.Figure:
    """Layers across, heads down, a cell's colour its effect: signed around 0, or a size from 0 up. effects [L, H]"""
    L, H = effects.shape
    fixed, each, least, most = _NARROW
    top = float(np.abs(effects).max()) or 1.0
    template = (
        f"{plotly_text(words.layer)} %{{x}}, {plotly_text(words.head)} %{{y}}<br>{plotly_text(words.value)}: "
        f"%{{z:{'+' if signed else ''}.5f}} {plotly_text(words.unit)}<extra></extra>"
    )
    heat = go.Heatmap(
        z=effects.T, x=list(range(L)), y=list(range(H)), coloraxis="coloraxis", xgap=1, ygap=1, hovertemplate=template
    )
    found = scales("signed" if signed else "size", "sqrt")
    height = min(max(fixed + each * H, least), most)
    figure = frame(go.Figure(heat), meta={"scales": found, "heads": True, "height": height, "narrow": height})
    figure.update_xaxes(**_axis(words.layer, L))
    figure.update_yaxes(**_axis(words.head, H), autorange="reversed")
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".2~g"}
    bar["title"] = {"text": plotly_text(f"{words.value} ({words.unit})"), "side": "right"}
    return figure.update_layout(
        coloraxis={"colorscale": found["light"], "cmin": -top if signed else 0, "cmax": top, "colorbar": bar}
    )


def _axis(title: str, count: int) -> dict:
    """Whole numbers from 0 up, a label on at most 16 of them."""
    step = -(-count // 16)
    return {
        "title": {"text": plotly_text(title), "standoff": 8},
        "tickmode": "linear",
        "tick0": 0,
        "dtick": step,
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
        "constrain": "domain",
    }
