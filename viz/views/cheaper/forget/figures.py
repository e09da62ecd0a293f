"""Figures of attention to fewer keys: one head, losses by position and by token, and the eviction of each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, figure, layer_axis, token_axis, token_names
from viz.charts.heatmap import Panel
from viz.charts.lines import line, token_data
from viz.labels import plotly_text
from viz.theme import HUES, frame, scales

HEIGHT, NARROW = 380, 380


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The mean loss in each bucket of positions. The first curve of a figure is full attention."""

    name: str
    loss: np.ndarray  # [K]


def map_panels(full: np.ndarray, seen: np.ndarray, left: np.ndarray, names: Sequence[str]) -> list[Panel]:
    """Build the panels of a head: full attention, mask of visible keys, rescaled and lost weights. [T, T] each"""
    mask = np.where(seen, 1.0, np.where(np.isnan(full), np.nan, 0.0))
    return [Panel(name, z) for name, z in zip(names, (full, mask, left, np.where(seen, np.nan, full)), strict=True)]


def buckets(length: int, most: int = 32) -> list[int]:
    """Return the first positions of at most `most` buckets of equal width, and the end of the last bucket. [K + 1]"""
    width = -(-length // most)
    return [*range(0, length, width), length]


def bucketed(loss: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    """Compute the mean loss in each bucket over windows and positions. loss [W, T], ends [K + 1] -> [K]"""
    return np.array([np.nanmean(loss[:, a:b]) for a, b in pairwise(ends)])


def loss_figure(curves: Sequence[LossCurve], ends: Sequence[int], words: Mapping[str, str]) -> go.Figure:
    """Draw the loss as a function of the position in the text, one line per curve.

    `words`: "position", "positions", "loss".
    """
    middles = [(a + b - 1) / 2 for a, b in pairwise(ends)]
    spans = [f"{a:,}–{b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(ends)]
    hover = f"{plotly_text(words['positions'])} %{{text}}<br>{plotly_text(words['loss'])}: %{{y:.3f}}"
    lines = [
        line(
            curve.name,
            middles,
            curve.loss,
            GRAY if n == 0 else HUES[(n - 1) % 7],
            hover=hover,
            text=spans,
            width=4 if n == 0 else 2.25,
            more={"mode": "lines"},
        )
        for n, curve in enumerate(curves)
    ]
    x = axis(words["position"], {"tickformat": ",", "range": [0, ends[-1]]})
    return figure(lines, x, axis(words["loss"]), height=HEIGHT, narrow=NARROW)


def token_loss_figure(
    full: np.ndarray, less: np.ndarray, pieces: Sequence[str], names: tuple[str, str], words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss of each prompt token from the second on, with full attention and under a policy. [T - 1] each

    `words`: "token", "loss".
    """
    x, texts = list(range(1, len(pieces))), token_names(pieces)[1:]
    hover = f"{plotly_text(words['token'])}: %{{text}}<br>{plotly_text(words['loss'])}: %{{y:.3f}}"
    data = token_data(len(pieces))[1:]
    lines = [
        line(name, x, loss, color, hover=hover, text=texts, width=width, more={"customdata": data})
        for name, loss, color, width in ((names[0], full, GRAY, 4), (names[1], less, HUES[0], 2.25))
    ]
    x_axis = token_axis(words["token"], pieces)
    return figure(lines, x_axis, axis(words["loss"], {"rangemode": "tozero"}), meta={"places": True})


def timeline_figure(gone: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the number of queries that can attend to each token's key, by layer.

    gone [L, T] is the first query without the key, averaged over KV heads. If the key is never evicted, the number
    extends to the end of the prompt, as the hover text says. `words`: "layer", "token", "stay", "gone", "stays".
    """
    L, T = gone.shape
    positions = np.arange(T)
    stay = gone - positions  # number of queries that can attend to the key
    names = token_names(pieces)
    texts = [
        [
            f"{plotly_text(words['stays'])}"
            if gone[layer, position] >= T
            else f"{plotly_text(words['gone'])} {gone[layer, position]:.4g}"
            for position in range(T)
        ]
        for layer in range(L)
    ]
    heat = go.Heatmap(
        z=np.where(gone >= T, T - positions, stay).astype(np.float32),
        x=list(range(T)),
        y=list(range(L)),
        text=texts,
        customdata=[names] * L,
        coloraxis="coloraxis",
        hovertemplate=(
            f"{plotly_text(words['token'])}: %{{customdata}}<br>{plotly_text(words['layer'])} %{{y}}"
            f"<br>{plotly_text(words['stay'])}: %{{z:.4g}}<br>%{{text}}<extra></extra>"
        ),
        xgap=1 if T <= 64 else 0,
        ygap=1,
    )
    height = min(max(170 + 18 * L, 260), 620)
    chart = frame(go.Figure(heat), meta={"scales": scales("size", "linear"), "height": height, "narrow": height})
    chart.update_xaxes(**token_axis(words["token"], pieces, {"range": [-0.5, T - 0.5]}))
    chart.update_yaxes(**layer_axis(words["layer"], L))
    colorbar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".3~g"}
    colorbar["title"] = {"text": plotly_text(words["stay"]), "side": "right"}
    return chart.update_layout(coloraxis={"cmin": 0, "cmax": T, "colorbar": colorbar})
