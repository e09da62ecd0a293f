"""Figures of the lens: the table of layers and positions, the same data as a heatmap, and curves at one position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import axis, figure, layer_axis, ticks
from viz.charts.lines import line
from viz.charts.packed import packed
from viz.labels import axis_name, plotly_text, shorten, tick_text, visible
from viz.numbers import BIT, whole
from viz.theme import HUES, RAMPS, colorscale, frame_layout, ramp_at, scales

COLORS = ("probability", "entropy", "kl", "rank")  # quantities that color a cell
CURVES = ("probability", "rank", "entropy", "kl")  # quantities that can be drawn along the stream
_CURVE_OF = {"probability": "sqrt", "entropy": "linear", "kl": "log1p", "rank": "rank"}
_ROW, _MAP = 17, 290  # heatmap heights in pixels: one layer, minimum of the whole map
# Text in the heatmap: maximum number of positions, characters per token, and maximum number of cells, since text is
# slow to draw.
_TEXT_COLUMNS, _CELL_TEXT, _TEXT_CELLS = 14, 6, 200


class LensGrid(Protocol):
    """The part of a logit_lens.LensReading to draw: K points, P positions, k top tokens, C followed tokens."""

    places: np.ndarray  # layers passed, [K]
    positions: np.ndarray  # token positions, [P]
    ids: np.ndarray  # [K, P, k]
    probabilities: np.ndarray  # [K, P, k]
    entropy: np.ndarray  # nats, [K, P]
    kl: np.ndarray  # nats, [K, P]
    candidates: np.ndarray  # followed tokens, [P, C]
    ranks: np.ndarray  # [K, P, C]
    shares: np.ndarray  # [K, P, C]


Texts = Callable[[int], str]  # the text of a token


@dataclass(frozen=True)
class LensWords:
    """Labels of a lens figure, in the reader's language."""

    place: str  # axis title: layers passed
    position: str
    value: str  # the drawn quantity, with its unit
    likeliest: str


def table_payload(reading: LensGrid, text: Texts) -> dict:
    """Build the data of the table: packed arrays [K, P, ...], with entropy in bits, and the text of each token once."""
    ids = reading.ids.ravel().tolist()
    shown = {*ids, *reading.candidates[:, 0].tolist()}
    return {
        "layers": reading.places.astype(int).tolist(),
        "positions": reading.positions.tolist(),
        "ids": ids,
        "final": reading.candidates[:, 0].tolist(),
        "names": {number: visible(text(number)) for number in sorted(shown)},
        "probabilities": packed(reading.probabilities),
        "entropy": packed(reading.entropy / BIT),
        "kl": packed(reading.kl),
        "ranks": reading.ranks[..., 0].ravel().tolist(),
    }


def color_scale(color: str, reading: LensGrid, vocab: int) -> dict:
    """Describe how a cell's value maps to the color ramp; the page computes the same from `top` and `curve`.

    Probability is scaled from 0 to 1. Entropy is scaled to log2 V, the entropy of the uniform distribution. KL is
    scaled by
    ln(1 + KL) to the largest value shown because the embedding's KL far exceeds all others. Rank is scaled
    logarithmically from V, at the start of the ramp, to 1.
    """
    top = {"probability": 1.0, "entropy": float(np.log2(vocab)), "kl": float(reading.kl.max()) or 1.0, "rank": vocab}
    return {
        "color": color,
        "top": float(top[color]),
        "curve": _CURVE_OF[color],
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
    }


def values_of(reading: LensGrid, name: str) -> np.ndarray:
    """Return the values of a quantity, with entropy in bits and ranks as log10. [K, P]"""
    if name == "rank":
        return np.log10(reading.ranks[..., 0]).astype(np.float32)
    return {"probability": reading.probabilities[..., 0], "entropy": reading.entropy / BIT, "kl": reading.kl}[name]


def map_figure(
    reading: LensGrid, color: str, text: Texts, pieces: Sequence[str], words: LensWords, vocab: int
) -> go.Figure:
    """Draw a heatmap with positions across and layers passed downward, colored by the quantity `color`.

    `pieces` are the texts of the prompt's tokens.
    """
    z, (K, P) = values_of(reading, color), reading.entropy.shape
    firsts = reading.ids[..., 0]
    with_text = P <= _TEXT_COLUMNS and K * P <= _TEXT_CELLS
    x = [axis_name(int(at), pieces[at]) for at in reading.positions]
    shown = ticks(P)
    rank = color == "rank"
    value = "%{customdata}" if rank else "%{z:.4f}"
    heat = go.Heatmap(
        z=z,
        x=x,
        y=reading.places.astype(int),
        hovertext=_texts(firsts, text, 24),
        text=_texts(firsts, text, _CELL_TEXT) if with_text else None,
        texttemplate="%{text}" if with_text else None,
        textfont={"size": 11},
        coloraxis="coloraxis",
        customdata=reading.ranks[..., 0] if rank else None,
        meta={"exact": True} if rank else None,
        xgap=1 if P <= 64 else 0,
        ygap=1 if P <= 64 else 0,
        hovertemplate=f"{plotly_text(words.place)}: %{{y}}<br>{plotly_text(words.position)}: %{{x}}"
        f"<br>{plotly_text(words.likeliest)}: %{{text}}<br>{plotly_text(words.value)}: {value}<extra></extra>",
    )
    colors, bar = _map_scales(color, float(reading.kl.max()) or 1.0), _coloraxis(color, reading, words, vocab)
    height = max(_ROW * K, _MAP) + 100
    meta = {
        "scales": colors,
        "height": height,
        "narrow": height,
        "block": 1,
        "whole": True,
        # Rows are numbered from P on, beyond all token positions, so that a selected token never marks a row.
        "window": [P, P + K, 0, P],
    }
    marks = {"tickvals": [x[n] for n in shown], "ticktext": [tick_text(pieces[reading.positions[n]]) for n in shown]}
    across = {"type": "category", "tickmode": "array", "tickangle": -60, "showgrid": False, **marks}
    layout = {
        "coloraxis": bar,
        "xaxis": axis(words.position, across),
        "yaxis": layer_axis(words.place, K),
    }
    return go.Figure(heat, frame_layout(meta) | layout)


def _texts(ids: np.ndarray, text: Texts, limit: int) -> list[list[str]]:
    """Format the tokens for Plotly, truncated to `limit` characters. [K, P]"""
    labels = {number: plotly_text(shorten(visible(text(number)), limit)) for number in np.unique(ids).tolist()}
    return [[labels[number] for number in row] for row in ids.tolist()]


def _map_scales(color: str, largest: float) -> dict[str, list[list]]:
    """Build the color scales for light and dark pages; `largest` is the KL at the end of the ramp."""
    if color == "kl":
        shares = np.concatenate([[0], np.geomspace(1e-4, 1, 32)])
        places = np.log1p(shares * largest) / np.log1p(largest)
        each = [*zip(shares.tolist(), places.tolist(), strict=True)]
        return {name: [[at, ramp_at(stops, place)] for at, place in each] for name, stops in RAMPS.items()}
    if color == "rank":  # reversed, so that rank 1 has the color of probability 1
        return {name: colorscale(stops[::-1], "linear") for name, stops in RAMPS.items()}
    return scales("size", _CURVE_OF[color])


def _coloraxis(color: str, reading: LensGrid, words: LensWords, vocab: int) -> dict:
    top = color_scale(color, reading, vocab)["top"]
    bar = {
        "thickness": 10,
        "len": 1,
        "outlinewidth": 0,
        "tickformat": ".3~g",
        "title": {"text": plotly_text(words.value), "side": "right"},
    }
    if color == "rank":
        top = float(np.log10(vocab))
        powers = list(range(int(top) + 1))
        bar |= {"tickvals": powers, "ticktext": [whole(10**n) for n in powers]}
    return {"cmin": 0, "cmax": top, "colorbar": bar}


def curve_figure(
    reading: LensGrid, curve: str, names: Sequence[str], typed: int, words: LensWords, place: Callable[[float], str]
) -> go.Figure:
    """Draw curves along the residual stream at one position: one per followed token, or one of entropy or KL.

    `names` are the texts of the reading's candidates; the curves of the last `typed` ones, added by the reader, are
    dotted. `place` describes a point in words. Points inside a layer have hollow markers.
    """
    x = reading.places.tolist()
    numbers = {"probability": reading.shares, "rank": reading.ranks}
    lines = numbers[curve][:, 0].T if curve in numbers else values_of(reading, curve)[:, 0][None]  # [lines, K]
    labels, typed = (list(names), typed) if curve in numbers else ([words.value], 0)
    number_format = "%{y:,}" if curve == "rank" else "%{y:.4f}"
    marks = {"size": 6, "symbol": ["circle-open" if at % 1 else "circle" for at in x]}
    more = {"mode": "lines+markers", "customdata": [plotly_text(place(at)) for at in x], "marker": marks}
    traces = []
    for n, (name, y) in enumerate(zip(labels, lines, strict=True)):
        dash, template = (
            "dot" if n >= len(labels) - typed else "solid",
            f"%{{customdata}}<br>{plotly_text(name)}: {number_format}",
        )
        style = more | {"hovertemplate": f"{template}<extra></extra>"}
        traces.append(line(name, x, y, HUES[n % len(HUES)], hover="", dash=dash, more=style))
    scale: dict = {"rangemode": "tozero"}
    if curve == "rank":
        scale = {"type": "log", "autorange": "reversed", "tickformat": ",d"}
        scale |= {"dtick": 1 if np.max(lines) > 200 else "D2"}
    steps = {"tickmode": "linear", "tick0": 0, "dtick": -(-int(x[-1] + 1) // 16), "range": [-0.5, x[-1] + 0.5]}
    shown = {"showlegend": curve in numbers}
    return figure(traces, axis(words.place, steps), axis(words.value, scale), height=380, narrow=360, more=shown)
