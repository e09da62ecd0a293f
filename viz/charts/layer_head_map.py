"""A grid of layers x heads: one cell per head, colored by a number; layer 0 on top, heads across."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import count_axis, layer_axis
from viz.labels import plotly_text
from viz.theme import frame, scales

_NARROW = 120, 26, 300, 620  # heights in pixels: axes, one layer, minimum, maximum


@dataclass(frozen=True)
class HeadWords:
    """The words on a grid of heads, in the user's language."""

    layer: str
    head: str
    value: str  # name of the cells' values


@dataclass(frozen=True)
class EffectWords:
    """The words on a grid of effects, in the user's language."""

    layer: str
    head: str
    value: str  # name of the cells' values
    unit: str


def effect_figure(effects: np.ndarray, words: EffectWords, *, signed: bool) -> go.Figure:
    """Draw a grid of effects: signed around 0, or magnitudes from 0. effects [L, H]"""
    hover = f"{plotly_text(words.value)}: %{{z:{'+' if signed else ''}.5f}} {plotly_text(words.unit)}"
    return head_figure(
        effects, HeadWords(words.layer, words.head, f"{words.value} ({words.unit})"), hover, signed=signed
    )


def head_figure(
    z: np.ndarray,
    words: HeadWords,
    hover: str,
    *,
    signed: bool,
    customdata: list | None = None,
    least: float = 0.0,
) -> go.Figure:
    """Draw one number per head as a grid, layers down, blank where NaN. `hover` is the template after the head's name.

    The color scale reaches at least `least`, so that rounding errors remain pale. z and customdata: [L, H]
    """
    L, H = z.shape
    fixed, each, smallest, largest = _NARROW
    finite = np.abs(z[np.isfinite(z)])
    top = float(finite.max(initial=least)) or 1.0
    place = f"{plotly_text(words.layer)} %{{y}}, {plotly_text(words.head)} %{{x}}"
    heat = go.Heatmap(
        z=z,
        x=list(range(H)),
        y=list(range(L)),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        customdata=customdata,
        hoverongaps=False,
        hovertemplate=f"{place}<br>{hover}<extra></extra>",
    )
    colors = scales("signed" if signed else "size", "sqrt")
    height = min(max(fixed + each * L, smallest), largest)
    figure = frame(go.Figure(heat), meta={"scales": colors, "heads": True, "height": height, "narrow": height})
    more = {"constrain": "domain"}
    figure.update_xaxes(**count_axis(words.head, H, more))
    figure.update_yaxes(**layer_axis(words.layer, L, more))
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".2~g"}
    bar["title"] = {"text": plotly_text(words.value), "side": "right"}
    return figure.update_layout(coloraxis={"cmin": -top if signed else 0, "cmax": top, "colorbar": bar})
