"""Figures of activation patching: the fraction of the gap that each patched vector or head recovers."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from model.records import Tokens
from viz.charts.axes import axis, layer_axis, ticks, token_names
from viz.charts.heatmap import MAX_TICKS
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.labels import plotly_text, tick_text
from viz.theme import frame, scales

_HEIGHT = 150, 20, 320, 700  # heights in pixels: axes, one layer, minimum, maximum


@dataclass(frozen=True)
class MapWords:
    """Labels of the map, in the reader's language."""

    layer: str
    token: str
    raw: str  # label of the effect in logits
    share: str


def patch_figure(shares: np.ndarray, effects: np.ndarray, tokens: Tokens, words: MapWords) -> go.Figure:
    """Draw a heatmap of the recovered fractions, tokens across and layers down, with a color scale centered at 0.

    A click on a cell selects its token. `shares`: recovered fractions; `effects`: changes of the target metric. [L,
    T] each
    """
    L, T = shares.shape
    names = token_names(tokens.pieces)
    place = f"{plotly_text(words.layer)} %{{y}}<br>{plotly_text(words.token)}: %{{x}}"
    numbers = f"{plotly_text(words.share)}: %{{z:.4f}}<br>{plotly_text(words.raw)}: %{{customdata.raw:+.4f}}"
    heat = go.Heatmap(
        z=shares.astype(np.float32),
        x=names,
        y=list(range(L)),
        coloraxis="coloraxis",
        hoverongaps=False,
        xgap=int(T <= 40),
        ygap=int(T <= 40),
        customdata=[[{"tokens": [t], "raw": round(float(value), 5)} for t, value in enumerate(row)] for row in effects],
        hovertemplate=f"{place}<br>{numbers}<extra></extra>",
    )
    fixed, each, smallest, largest = _HEIGHT
    height, colors = min(max(fixed + each * L, smallest), largest), scales("signed", "linear")
    figure = frame(go.Figure(heat), meta={"scales": colors, "height": height, "narrow": height})
    at = ticks(T, MAX_TICKS)
    labels = {"tickvals": [names[t] for t in at], "ticktext": [tick_text(tokens.pieces[t]) for t in at]}
    shown = {"type": "category", "tickmode": "array", "tickangle": -60, "showgrid": False, **labels}
    figure.update_xaxes(**axis(words.token, shown))
    figure.update_yaxes(**layer_axis(words.layer, L))
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".2~g"}
    bar["title"] = {"text": plotly_text(words.share), "side": "right"}
    top = float(np.abs(shares[np.isfinite(shares)]).max(initial=0)) or 1.0
    return figure.update_layout(
        coloraxis={"cmin": -top, "cmax": top, "colorbar": bar},
    )


def head_patch_figure(shares: np.ndarray, effects: np.ndarray, words: HeadWords, raw: str) -> go.Figure:
    """Draw a heatmap of the recovered fractions of all heads, with a color scale centered at 0.

    A click on a cell selects its head. `words` labels the axes and the fractions, `raw` the effects in logits.
    `shares`: recovered fractions; `effects`: changes of the target metric. [L, H] each
    """
    hover = f"{plotly_text(words.value)}: %{{z:.4f}}<br>{plotly_text(raw)}: %{{customdata:+.4f}}"
    return head_figure(shares, words, hover, signed=True, customdata=effects.astype(float).round(5).tolist())
