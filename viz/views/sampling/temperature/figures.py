"""A next-token distribution at a range of temperatures: a map of its top tokens, and four measures of its spread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, LEGEND, ORANGE, axis, figure, row_axis, row_tick
from viz.charts.lines import HOVER_TEXT, grid, line
from viz.labels import plotly_text, shorten, visible
from viz.numbers import BIT, bits, number, percent, whole
from viz.theme import scales

MEASURES = {"entropy": bits, "choices": number, "largest": percent, "kept": whole}  # panels and their number formats
_FEW = (0.1, 0.3, 1, 3)  # temperatures labeled on the axis of a small panel
_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 3)


class Heated(Protocol):
    """The distribution at each temperature: the result of model.sampling.temperatures.heat for N temperatures and C
    tokens.
    """

    temperatures: np.ndarray  # [N]
    ids: np.ndarray  # [C]
    probabilities: np.ndarray  # [C, N], 0 for a removed token
    entropy: np.ndarray  # in nats [N]
    largest: np.ndarray  # top probability [N]
    kept: np.ndarray  # number of remaining tokens [N]


@dataclass(frozen=True)
class Scale:
    """The spacing of the temperature axis, and the temperature marked on it."""

    logarithmic: bool
    now: float  # the pipeline's own temperature


def map_figure(
    heated: Heated, pieces: Sequence[str], following: int | None, scale: Scale, words: Mapping[str, str]
) -> go.Figure:
    """Draw a map of probabilities: one row per token in decreasing order of the model's probability, one column per
    temperature.

    The cells of removed tokens stay empty. `words`: temperature, probability, hover with {token}, {id}, {T}, {share},
    out.
    """
    names = [plotly_text(f"{n} {shorten(visible(piece), 40)}") for n, piece in enumerate(pieces, 1)]
    ids, temperatures = heated.ids.tolist(), heated.temperatures.tolist()
    hovers = []
    for token, piece, row in zip(ids, pieces, heated.probabilities.tolist(), strict=True):
        labels = {"token": plotly_text(shorten(visible(piece), 40)), "id": token}
        template = plotly_text(words["hover"]).replace("\n", "<br>")
        shares = [percent(share) if share else plotly_text(words["out"]) for share in row]
        cells = zip(temperatures, shares, strict=True)
        hovers.append([template.format(**labels, T=number(T), share=share) for T, share in cells])
    ramp = scales("share", "sqrt")
    heat = go.Heatmap(
        x=temperatures,
        y=names,
        z=[[share or None for share in row] for row in heated.probabilities.tolist()],
        coloraxis="coloraxis",
        hovertext=hovers,
        hovertemplate=HOVER_TEXT,
        ygap=1,
        hoverongaps=True,
    )
    ticks = [row_tick(piece, token == following) for token, piece in zip(ids, pieces, strict=True)]
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": ".0%"}
    bar["title"] = {"text": plotly_text(words["probability"]), "side": "right"}
    colors = {"cmin": 0, "cmax": 1, "colorbar": bar}
    return figure(
        [heat],
        _across(scale, words["temperature"], {"showgrid": False}),
        row_axis(names, ticks, {"range": [len(names) - 0.5, -0.5]}),
        height=84 + 20 * len(names),
        narrow=100 + 20 * len(names),
        meta={"scales": ramp, "shapes": _marks(scale)},
        more={"coloraxis": colors},
    )


def width_figure(heated: Heated, unwarped: Heated | None, scale: Scale, words: Mapping[str, str]) -> go.Figure:
    """Draw entropy in bits, effective number of choices, top probability and number of remaining tokens by temperature,
    one panel each.

    `unwarped`: the model's own logits at each temperature, without any other step; None if the pipeline has no other
    step. `words`: temperature, pipeline, alone, and each of MEASURES.
    """
    panels: dict[str, list[go.Scatter]] = {name: [] for name in MEASURES}
    for name, each, color, look in (
        ("alone", unwarped, GRAY, {"dash": "dot"}),
        ("pipeline", heated, BLUE, {"width": 2.5}),
    ):
        if each is None:
            continue
        temperatures = each.temperatures.tolist()
        for measure, formatted in MEASURES.items():
            y = _values(each, measure)
            start = f"{plotly_text(words[name])}<br>T = "
            texts = [
                f"{start}{number(T)}: {formatted(value)}" for T, value in zip(temperatures, y.tolist(), strict=True)
            ]
            more = {
                "mode": "lines",
                "legendgroup": name,
                "showlegend": unwarped is not None and measure == "entropy",
                "hovertext": texts,
                "hovertemplate": HOVER_TEXT,
            }
            label = [plotly_text(words[measure])] * len(texts)
            panels[measure].append(line(words[name], temperatures, y, color, hover="", text=label, more=more, **look))
    looks = _looks(heated if unwarped is None else unwarped)
    few = {"tickvals": _FEW, "ticktext": [f"{T:g}" for T in _FEW]} if scale.logarithmic else {"dtick": 1}
    x = dict.fromkeys(MEASURES, _across(scale, words["temperature"], few | {"tickangle": 0}))
    y = {name: axis(words[name], looks[name]) for name in MEASURES}
    marks = [
        mark | {"xref": f"x{tail}", "yref": f"y{tail} domain"} for tail in ("", "2", "3", "4") for mark in _marks(scale)
    ]
    above = LEGEND | {"y": 1.04}
    return grid(panels, x, y, height=270, narrow=460, legend=above, columns=(4, 2), meta={"shapes": marks})


def _values(heated: Heated, measure: str) -> np.ndarray:
    """Return one of MEASURES at each temperature, with entropy in bits. [N]"""
    of_entropy = {"entropy": heated.entropy / BIT, "choices": np.exp(heated.entropy)}
    return of_entropy[measure] if measure in of_entropy else getattr(heated, measure)


def _looks(widest: Heated) -> dict[str, dict]:
    """Build the settings of each panel's vertical axis, logarithmic for effective choices and remaining tokens."""
    top = {"choices": np.exp(widest.entropy).max(), "kept": widest.kept.max()}
    power = {
        name: {"type": "log", "range": [-0.06, math.log10(max(10.0, float(largest))) + 0.06], "dtick": 1}
        for name, largest in top.items()
    }
    return {"entropy": {"rangemode": "tozero"}, "largest": {"range": [0, 1.03], "tickformat": ".0%"}, **power}


def _across(scale: Scale, title: str, more: Mapping[str, object]) -> dict:
    """Build the settings of the temperature axis."""
    if not scale.logarithmic:
        return axis(title, {"range": [0, 3.04], "dtick": 0.5, **more})
    span = [math.log10(0.0475), math.log10(3.16)]
    ticks = {"tickvals": _TICKS, "ticktext": [f"{T:g}" for T in _TICKS]}
    return axis(title, {"type": "log", "range": span, **ticks, **more})


def _marks(scale: Scale) -> list[dict]:
    """Draw a vertical line at the pipeline's own temperature, unless it lies outside the axis."""
    if not 0.05 <= scale.now <= 3:
        return []
    place = {"x0": scale.now, "x1": scale.now, "y0": 0, "y1": 1}
    line = {"color": ORANGE, "width": 2, "dash": "dash"}
    return [{"type": "line", "xref": "x", "yref": "paper", **place, "line": line}]
