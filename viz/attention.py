"""Figures of attention: one head's weights, and every head of the model at once."""

import base64
import functools
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from model.records import Tokens
from viz.labels import axis_name, plotly_text, tick_text, visible
from viz.theme import RAMPS, colorscale, frame

MAX_CELLS = 256  # cells a side drawn at once; beyond it neighbours are pooled until the reader zooms in
MAX_TICKS = 32  # labels an axis: their layout, not the cells, is what makes a heat map slow


@dataclass(frozen=True)
class Window:
    """The part of a pattern that is drawn: query rows q0 .. q1 - 1 and key columns k0 .. k1 - 1."""

    q0: int
    q1: int
    k0: int
    k1: int

    @staticmethod
    def whole(T: int) -> "Window":
        """All of it."""
        return Window(0, T, 0, T)

    @staticmethod
    def of(value: object, T: int) -> "Window":
        """The window a browser asked for, or all of it where that is not four positions in order."""
        if not (isinstance(value, list | tuple) and len(value) == 4 and all(isinstance(v, int) for v in value)):
            return Window.whole(T)
        q0, q1, k0, k1 = (min(max(v, 0), T) for v in value)
        return Window(q0, q1, k0, k1) if q1 - q0 >= 2 and k1 - k0 >= 2 else Window.whole(T)


@dataclass(frozen=True)
class PatternWords:
    """The words on a pattern's figure, in the reader's language."""

    query: str
    key: str
    weight: str
    largest: str  # said of a pooled cell


def pool(z: np.ndarray, block: int) -> np.ndarray:
    """Largest value of each block x block square, NaN only where all are NaN. [q, k] -> [ceil(q/b), ceil(k/b)]"""
    if block == 1:
        return z
    q, k = (-(-n // block) * block for n in z.shape)
    padded = np.full((q, k), np.nan, np.float32)
    padded[: z.shape[0], : z.shape[1]] = z
    parts = [padded[i::block, j::block] for i in range(block) for j in range(block)]
    return functools.reduce(np.fmax, parts)


def pattern_figure(pattern: np.ndarray, tokens: Tokens, words: PatternWords, window: Window) -> go.Figure:
    """Heat map of one head: queries down, keys across, masked cells blank, exact float32 values on hover.

    pattern [T, T]. A window of more than MAX_CELLS tokens is max-pooled; `layout.meta` says by how much, and the
    page asks for a smaller window when the reader zooms.
    """
    T = len(tokens)
    part = np.where(np.tri(T, dtype=bool), pattern, np.nan).astype(np.float32)
    part = part[window.q0 : window.q1, window.k0 : window.k1]
    block = -(-max(part.shape) // MAX_CELLS)
    z = pool(part, block)
    y, y_ticks, y_text = _axis(tokens, window.q0, window.q1, block)
    x, x_ticks, x_text = _axis(tokens, window.k0, window.k1, block)
    value = words.weight if block == 1 else f"{words.weight} ({words.largest.format(n=block)})"
    figure = go.Figure(
        go.Heatmap(
            z=z,
            x=x,
            y=y,
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=1 if max(z.shape) <= 40 else 0,
            ygap=1 if max(z.shape) <= 40 else 0,
            hovertemplate=(
                f"{plotly_text(words.query)}: %{{y}}<br>{plotly_text(words.key)}: %{{x}}"
                f"<br>{plotly_text(value)}: %{{z:.6f}}<extra></extra>"
            ),
        )
    )
    scales = {name: colorscale(stops) for name, stops in RAMPS.items()}
    frame(figure, meta={"block": block, "window": [window.q0, window.q1, window.k0, window.k1], "scales": scales})
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickvals": [0, 0.05, 0.25, 0.5, 1]}
    bar["title"] = {"text": plotly_text(words.weight), "side": "right"}
    square = {"scaleanchor": "x", "constraintoward": "top"} if len(x) == len(y) else {}
    figure.update_layout(
        coloraxis={"colorscale": scales["light"], "cmin": 0, "cmax": 1, "colorbar": bar},
        xaxis=_axis_look(words.key, x_ticks, x_text) | {"tickangle": -60},
        yaxis=_axis_look(words.query, y_ticks, y_text) | {"autorange": "reversed"} | square,
    )
    return figure


def _axis_look(title: str, ticks: list[str], texts: list[str]) -> dict:
    """A category axis with a label on some of its tokens."""
    return {
        "type": "category", "tickmode": "array", "tickvals": ticks, "ticktext": texts, "automargin": True,
        "title": {"text": plotly_text(title), "standoff": 8},
        "showgrid": False, "zeroline": False, "constrain": "domain",
    }  # fmt: skip


def _axis(tokens: Tokens, start: int, end: int, block: int) -> tuple[list[str], list[str], list[str]]:
    """Category names of a window's tokens or blocks of tokens, those that get a tick, and the ticks' texts."""
    starts = range(start, end, block)
    if block == 1:
        names = [axis_name(i, tokens.pieces[i]) for i in starts]
    else:
        names = [f"{i}–{min(i + block, end) - 1} {tick_text(tokens.pieces[i])}…" for i in starts]
    step = -(-len(names) // MAX_TICKS)
    shown = range(0, len(names), step)
    return names, [names[n] for n in shown], [tick_text(tokens.pieces[starts[n]]) for n in shown]


def overview(thumbnails: np.ndarray, metrics: pd.DataFrame, group_size: int) -> dict:
    """Every layer x head as one picture for the page's grid: codes 0 .. 254 on the ramp, 255 blank.

    thumbnails uint8 [L, H, t, t]. The codes are square roots of max-pooled weights, deflated and base64-coded.
    """
    L, H, t, _ = thumbnails.shape
    packed = zlib.compress(np.ascontiguousarray(thumbnails).tobytes(), 1)
    values = metrics.to_numpy(dtype=float).tolist()
    return {
        "layers": L,
        "heads": H,
        "side": t,
        "group": group_size,
        "codes": base64.b64encode(packed).decode(),
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
        "metrics": [[None if v != v else round(v, 4) for v in row] for row in values],
    }


def token_chips(tokens: Tokens) -> list[dict]:
    """What the token strip shows: visible text, id, bytes as hex, byte span. Plain text, set by textContent."""
    return [
        {"text": visible(piece), "id": int(i), "bytes": raw.hex(" "), "span": [int(a), int(b)]}
        for piece, i, raw, (a, b) in zip(tokens.pieces, tokens.ids, tokens.raw, tokens.spans, strict=True)
    ]
