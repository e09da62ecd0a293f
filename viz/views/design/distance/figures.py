"""Figures of attention scores and weights as functions of the distance from query token to key token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, figure, powers, ticks
from viz.charts.lines import band, line
from viz.labels import plotly_text
from viz.numbers import exact, whole
from viz.theme import HUES, scales

HEIGHT, NARROW = 400, 380
FLOOR = 1e-6  # minimum of the initial weight axis
ZERO = 0.5  # x position of distance 0 on a logarithmic axis
_ROW, _ROOM = 24, 90  # height in pixels: one head of the map, and the margins

Buckets = Sequence[tuple[int, int]]  # first and last distance of each bucket


@dataclass(frozen=True, eq=False)
class Curves:
    """Scores and weights of one head by distance.

    Each array is [K], one entry per distance bucket, NaN for an empty bucket; `position_only` and `sink` are optional.
    """

    name: str
    pairs: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    position_only: np.ndarray | None = None  # score from position alone
    sink: np.ndarray | None = None  # score of token 0


def label(bucket: tuple[int, int]) -> str:
    """Format a bucket of distances."""
    return str(bucket[0]) if bucket[0] == bucket[1] else f"{bucket[0]}–{bucket[1]}"


def scores_figure(curves: Sequence[Curves], buckets: Buckets, words: Mapping[str, str], *, log: bool) -> go.Figure:
    """Draw the scores by distance: their median and band, the score from position alone, and the score of token 0.

    Keys of `words`: `distance`, `score`, `tokens`, `pairs`, `median`, `alone`, `sink`.
    """
    traces = []
    for n, each in enumerate(curves):
        hue, name, filled = HUES[n % len(HUES)], f"{each.name}, {words['median']}", np.isfinite(each.low)
        x = np.array(_places(buckets, log))[filled]
        traces += band(name, x, each.low[filled], each.high[filled], hue)
        hovers = [
            f"{words['median']} {exact(median)} ({exact(low)} … {exact(high)})<br>"
            f"{words['pairs'].format(n=whole(pairs))}"
            for median, low, high, pairs in zip(each.median, each.low, each.high, each.pairs, strict=True)
        ]
        look = {"line": {"color": hue, "width": 2.5}, "legendgroup": plotly_text(name)}
        traces.append(_line(each.median, buckets, name, hovers, words, log).update(look))
        for values, quantity, dash in ((each.position_only, words["alone"], "dash"), (each.sink, words["sink"], "dot")):
            if values is not None:
                hovers = [f"{quantity} {exact(value)}" for value in values]
                look = {"line": {"color": hue, "width": 1.75, "dash": dash}, "mode": "lines"}
                traces.append(_line(values, buckets, f"{each.name}, {quantity}", hovers, words, log).update(look))
    return figure(traces, _across(buckets, words, log), axis(words["score"]), height=HEIGHT, narrow=NARROW)


def weights_figure(
    curves: Sequence[Curves], uniform: np.ndarray, buckets: Buckets, words: Mapping[str, str], *, log: bool
) -> go.Figure:
    """Draw the mean attention weight by distance, with that of uniform attention for comparison.

    `uniform`: [K], one entry per bucket. Keys of `words`: `distance`, `weight`, `tokens`, `uniform`.
    """
    drawn = [(each.name, each.weight, HUES[n % len(HUES)], 2.5, "solid") for n, each in enumerate(curves)]
    drawn.append((words["uniform"], uniform, GRAY, 1.75, "dash"))
    traces = []
    for name, weights, hue, width, dash in drawn:
        values = np.where(weights > 0, weights, np.nan)  # log 0 is undefined
        hovers = [exact(value) for value in values]
        look = {"line": {"color": hue, "width": width, "dash": dash}}
        trace = _line(values, buckets, name, hovers, words, log).update(look)
        traces.append(trace.update(mode="lines") if dash == "dash" else trace)
    shown = [value for trace in traces for value in trace.y]
    low, high = max(min(shown, default=FLOOR), FLOOR), max(shown, default=1.0)
    reach = [float(np.log10(low)) - 0.1, float(np.log10(max(high, low))) + 0.1]
    more = powers(low, max(high, low)) | {"range": reach}
    return figure(traces, _across(buckets, words, log), axis(words["weight"], more), height=HEIGHT, narrow=NARROW)


def layer_figure(weights: np.ndarray, layer: int, buckets: Buckets, words: Mapping[str, str]) -> go.Figure:
    """Draw the mean weight at each distance for every head of a layer; a click on a cell selects its head.

    `weights`: [H, K], heads by distance buckets. Keys of `words`: `distance`, `head`, `weight`, `tokens`.
    """
    H, K = weights.shape
    names = [label(at) for at in buckets]
    heat = go.Heatmap(
        z=weights.astype(np.float32),
        x=names,
        y=[f"{layer}.{head}" for head in range(H)],
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        customdata=[[{"head": [layer, head]}] * K for head in range(H)],
        hovertemplate=f"{plotly_text(words['head'])} %{{y}}<br>%{{x}} {plotly_text(words['tokens'])}: %{{z:.3g}}"
        "<extra></extra>",
    )
    colors, height = scales("share", "sqrt"), min(max(_ROOM + _ROW * H, 200), 640)
    top = float(np.nanmax(weights)) if np.isfinite(weights).any() else 1.0
    title = {"text": plotly_text(words["weight"]), "side": "right"}
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".2~g", "title": title}
    look = {"showgrid": False, "type": "category"}
    across = {"tickmode": "array", "tickvals": [names[n] for n in ticks(K, 12)], "tickangle": 0}
    return figure(
        [heat],
        axis(words["distance"], look | across),
        axis(words["head"], look | {"autorange": "reversed"}),
        height=height,
        meta={"scales": colors},
        more={"coloraxis": {"cmin": 0, "cmax": top or 1.0, "colorbar": bar}},
    )


def _places(buckets: Buckets, log: bool) -> list[float]:
    """Return the x position of each bucket: the arithmetic mean of its ends, or their geometric mean if `log`."""
    if not log:
        return [(a + b) / 2 for a, b in buckets]
    return [float(np.sqrt(a * b)) if a else ZERO for a, b in buckets]


def _line(
    values: np.ndarray, buckets: Buckets, name: str, hovers: Sequence[str], words: Mapping[str, str], log: bool
) -> go.Scatter:
    """Draw one quantity by distance, without empty buckets. `hovers` holds the hover text of each bucket's value."""
    filled, places = np.flatnonzero(np.isfinite(values)), _places(buckets, log)
    texts = [f"{plotly_text(name)}<br>{label(buckets[n])} {words['tokens']}<br>{hovers[n]}" for n in filled]
    return line(
        name,
        [places[n] for n in filled],
        values[filled],
        GRAY,
        hover="",
        text=[label(buckets[n]) for n in filled],
        more={"marker": {"size": 5}, "hovertext": texts, "hovertemplate": "%{hovertext}<extra></extra>"},
    )


def _across(buckets: Buckets, words: Mapping[str, str], log: bool) -> dict:
    """Build the distance axis; if `log`, its ticks are at 0 and at powers of two."""
    last, logarithmic = buckets[-1][1], {}
    if log:
        marks = [0, *(2**n for n in range(12) if 2**n <= last)]
        logarithmic = {
            "type": "log",
            "tickmode": "array",
            "tickvals": [each or ZERO for each in marks],
            "ticktext": [whole(each) for each in marks],
            "range": [float(np.log10(0.4)), float(np.log10(max(1.2 * last, 1.2)))],
        }
    return axis(words["distance"], {"tickformat": ",", **logarithmic})
