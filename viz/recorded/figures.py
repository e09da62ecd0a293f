"""Figures of attention given as arrays: maps of chosen heads, all heads at once, and one number of each head."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from model.records import Tokens
from viz.charts.heatmap import Panel, PatternWords, Window, pattern_figure, pool
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.labels import plotly_text
from viz.theme import frame_layout, scales

_SIDE = 48  # maximum number of cells per side of a head in the picture of all heads
_GAP = 2  # cells between heads


def maps(
    weights: np.ndarray,
    heads: Sequence[tuple[int, int]],
    queries: Sequence[str],
    keys: Sequence[str] | None,
    catalogue: Mapping[str, str],
    *,
    first_layer: int = 0,
) -> go.Figure:
    """Draw the maps of heads (layer, head) side by side. float32 [L, H, T, S], NaN where masked"""
    names = PatternWords(*(catalogue[f"pattern.{key}"] for key in ("query", "key", "weight", "largest")))
    panels = [Panel(named(layer, head, catalogue), weights[layer - first_layer, head]) for layer, head in heads]
    window = Window(0, weights.shape[2], 0, weights.shape[3])
    return pattern_figure(panels, tokens_of(queries), names, window, keys=None if keys is None else tokens_of(keys))


def overview(weights: np.ndarray, catalogue: Mapping[str, str], *, first_layer: int = 0) -> go.Figure:
    """Draw all heads as small maps in one picture, layers down, heads across. float32 [L, H, T, S], NaN where masked

    A head of more than 48 tokens is pooled to its largest weights.
    """
    L, H, T, S = weights.shape
    block = -(-max(T, S) // _SIDE)
    small = np.stack([[pool(each, block) for each in layer] for layer in weights])
    t, s = small.shape[2:]
    wide = np.full((L, H, t + _GAP, s + _GAP), np.nan, np.float32)
    wide[:, :, :t, :s] = small
    z = wide.swapaxes(1, 2).reshape(L * (t + _GAP), H * (s + _GAP))[:-_GAP, :-_GAP]
    hover = [
        [plotly_text(named(layer + first_layer, head, catalogue)) for head in np.arange(z.shape[1]) // (s + _GAP)]
        for layer in np.arange(z.shape[0]) // (t + _GAP)
    ]
    weight = plotly_text(catalogue["pattern.weight"])
    heat = {
        "type": "heatmap",
        "z": z,
        "customdata": hover,
        "coloraxis": "coloraxis",
        "hoverongaps": False,
        "hovertemplate": f"%{{customdata}}<br>{weight}: %{{z:.4f}}<extra></extra>",
    }
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "title": {"text": weight, "side": "right"}}
    bar |= {"tickvals": [0, 0.05, 0.25, 0.5, 1], "tickformat": ".3~g"}
    height = int(min(max(120 + L * 56, 260), 900))
    meta = {"scales": scales("share", "sqrt"), "height": height, "narrow": height}
    plain = {"showgrid": False, "zeroline": False, "constrain": "domain", "automargin": True}
    return go.Figure(
        heat,
        frame_layout(meta)
        | {
            "coloraxis": {"cmin": 0, "cmax": 1, "colorbar": bar},
            "xaxis": plain | _ticks(H, s, 0, catalogue["common.head"]),
            "yaxis": plain | _ticks(L, t, first_layer, catalogue["common.layer"]) | {"autorange": "reversed"},
        },
    )


def number(
    values: np.ndarray, label: str, unit: str, catalogue: Mapping[str, str], *, first_layer: int = 0
) -> go.Figure:
    """Draw one number per head as a grid. [L, H]"""
    names = HeadWords(catalogue["common.layer"], catalogue["common.head"], label)
    hover = f"{plotly_text(label)}: %{{z:.4f}} {plotly_text(unit)}".rstrip()
    figure = head_figure(values, names, hover, signed=False)
    return figure.update_traces(y=list(range(first_layer, first_layer + len(values))))


def tokens_of(texts: Sequence[str]) -> Tokens:
    """Build tokens without ids from their texts."""
    raw = tuple(text.encode() for text in texts)
    ends = np.cumsum([len(each) for each in raw])
    spans = np.stack([ends - [len(each) for each in raw], ends], -1)
    return Tokens(np.arange(len(raw)), tuple(texts), raw, spans)


def named(layer: int, head: int, catalogue: Mapping[str, str]) -> str:
    """Return the name of a head."""
    return catalogue["overview.heads.button"].format(layer=layer, head=head)


def _ticks(n: int, side: int, first: int, title: str) -> dict:
    """Build the labels of an axis of n heads or layers, in the middle of each."""
    step = -(-n // 24)
    shown = range(0, n, step)
    return {
        "tickvals": [at * (side + _GAP) + (side - 1) / 2 for at in shown],
        "ticktext": [str(at + first) for at in shown],
        "title": {"text": plotly_text(title), "standoff": 8},
    }
