"""Pictures of a model that may see less: one head, its losses, its heads, and when each key went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, count_axis, figure, token_axis, token_names
from viz.charts.heatmap import Panel
from viz.charts.lines import line, token_data
from viz.labels import plotly_text
from viz.theme import HUES, frame, scales

HEIGHT, NARROW = 380, 380


@dataclass(frozen=True, eq=False)
class Curve:
    """Losses by bucket of positions; the first curve of a figure is that of full attention."""

    name: str
    loss: np.ndarray  # [K]


def map_panels(full: np.ndarray, seen: np.ndarray, left: np.ndarray, names: Sequence[str]) -> list[Panel]:
    """Return a head in full, what may be seen, what it reads then, and what it could no longer read. All [T, T]"""
    mask = np.where(seen, 1.0, np.where(np.isnan(full), np.nan, 0.0))
    return [Panel(name, z) for name, z in zip(names, (full, mask, left, np.where(seen, np.nan, full)), strict=True)]


def buckets(length: int, most: int = 32) -> list[int]:
    """First positions of buckets of equal width, and the end of the last one. [K + 1]"""
    width = -(-length // most)
    return [*range(0, length, width), length]


def bucketed(loss: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    """Return the mean over windows and a bucket's positions. [W, T] -> [K]"""
    return np.array([np.nanmean(loss[:, a:b]) for a, b in pairwise(ends)])


def loss_figure(curves: Sequence[Curve], ends: Sequence[int], words: Mapping[str, str]) -> go.Figure:
    """Return the loss against the position in the text. `words`: "position", "positions", "loss"."""
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
    """Return the loss of each token of a prompt, in full and with less. Both [T - 1], of the tokens from the second on.

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
    """How long each token's key stays, layer by layer. `gone` [L, T]: the mean first query that no longer sees it.

    A key that stays to the end has the color of the largest stay and says so. `words`: "layer", "token", "stay",
    "gone", "stays".
    """
    L, T = gone.shape
    there = np.arange(T)
    stay = gone - there  # queries that saw it
    names = token_names(pieces)
    texts = [
        [
            f"{plotly_text(words['stays'])}"
            if gone[layer, at] >= T
            else f"{plotly_text(words['gone'])} {gone[layer, at]:.4g}"
            for at in range(T)
        ]
        for layer in range(L)
    ]
    heat = go.Heatmap(
        z=np.where(gone >= T, T - there, stay).astype(np.float32),
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
    shown = frame(go.Figure(heat), meta={"scales": scales("size", "linear"), "height": height, "narrow": height})
    shown.update_xaxes(**token_axis(words["token"], pieces, {"range": [-0.5, T - 0.5]}))
    shown.update_yaxes(**count_axis(words["layer"], L), autorange="reversed")
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".3~g"}
    bar["title"] = {"text": plotly_text(words["stay"]), "side": "right"}
    return shown.update_layout(coloraxis={"cmin": 0, "cmax": T, "colorbar": bar})
