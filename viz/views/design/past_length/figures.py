"""Figure of the loss by position, within and beyond the trained length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, figure
from viz.charts.lines import band, line
from viz.labels import plotly_text
from viz.numbers import NONE, decimals, nats, whole
from viz.theme import HUES

HEIGHT, NARROW = 440, 420
REFERENCE = HUES[7]


@dataclass(frozen=True, eq=False)
class SchemeCurve:
    """The loss of one scheme by bucket of positions."""

    name: str
    loss: np.ndarray  # mean, [K]
    error: np.ndarray  # standard error, [K]; NaN for a single window


def loss_figure(
    curves: Sequence[SchemeCurve], ends: Sequence[int], trained: int, words: Mapping[str, str]
) -> go.Figure:
    """Draw the loss by position with a band of one standard error, and a line at the end of the trained length.

    The first curve is the reference. Keys of `words`: `position`, `loss` (title of the y axis), `positions`, `trained`,
    `error`.
    """
    middles = [(a + b - 1) / 2 for a, b in pairwise(ends)]
    spans = [f"{whole(a)}–{whole(b - 1)}" if b - a > 1 else whole(a) for a, b in pairwise(ends)]
    lines, bands = [], []
    for n, curve in enumerate(curves):
        color = REFERENCE if n == 0 else HUES[(n - 1) % 7]
        if np.isfinite(curve.error).any():
            bands += band(curve.name, middles, curve.loss - curve.error, curve.loss + curve.error, color)
        more = {"mode": "lines", "hovertext": _hovers(curve, spans, words), "legendgroup": plotly_text(curve.name)}
        width = 4 if n == 0 else 2.25
        hover = "%{hovertext}"
        lines.append(line(curve.name, middles, curve.loss, color, hover=hover, text=spans, width=width, more=more))
    x = axis(words["position"], {"tickformat": ",", "range": [0, ends[-1]]})
    meta, notes = _trained(trained, words["trained"]) if trained < ends[-1] else ({}, [])
    more = {"annotations": notes}
    return figure([*bands, *lines], x, axis(words["loss"]), height=HEIGHT, narrow=NARROW, meta=meta, more=more)


def _hovers(curve: SchemeCurve, spans: Sequence[str], words: Mapping[str, str]) -> list[str]:
    return [
        f"{plotly_text(words['positions'])} {span}<br>{nats(loss)}"
        + (f" ± {decimals(error, 3)} ({plotly_text(words['error'])})" if decimals(error, 3) != NONE else "")
        for span, loss, error in zip(spans, curve.loss, curve.error, strict=True)
    ]


def _trained(length: int, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Build the vertical line at the end of the trained length, and its annotation."""
    at = length - 0.5
    edge = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    note = {"x": at, "y": 1, "xref": "x", "yref": "paper", "xanchor": "right", "yanchor": "top", "xshift": -6}
    shapes = {"shapes": [edge | {"line": {"color": GRAY, "width": 2, "dash": "dash"}}]}
    return shapes, [note | {"showarrow": False, "text": plotly_text(name)}]
