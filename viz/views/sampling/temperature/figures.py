"""Pictures of a prediction at every temperature: a map of its likeliest tokens, and how wide it is."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from viz.labels import plotly_text, shorten, visible
from viz.theme import HUES, frame_layout, scales
from viz.views.predictions.figures import brief, percent

MEASURES = ("entropy", "choices", "largest", "kept")
_FEW = (0.1, 0.3, 1, 3)  # temperatures named on a small panel
_PLAIN = "rgba(128,134,150,0.9)"


class Heated(Protocol):
    """What model.heat.heat gives."""

    temperatures: np.ndarray  # [N]
    ids: np.ndarray  # [C]
    probabilities: np.ndarray  # [C, N], 0 for a token that is out
    entropy: np.ndarray  # nats [N]
    largest: np.ndarray  # [N]
    kept: np.ndarray  # [N]


@dataclass(frozen=True, eq=False)
class Axis:
    """The temperatures across."""

    logarithmic: bool
    now: float | None  # the one of the pipeline; None where it has none


def map_figure(
    found: Heated, pieces: Sequence[str], following: int | None, axis: Axis, words: Mapping[str, str]
) -> str:
    """Tokens down, the model's likeliest first, temperatures across, a cell's colour its probability; JSON.

    Nothing where a token is out. Words: temperature, probability, hover with {token}, {id}, {T}, {share}, out.
    """
    names = [plotly_text(f"{n} {shorten(visible(piece), 40)}") for n, piece in enumerate(pieces, 1)]
    hover = []
    for token, piece, row in zip(found.ids.tolist(), pieces, found.probabilities.tolist(), strict=True):
        name = plotly_text(shorten(visible(piece), 40))
        hover.append(
            [
                plotly_text(words["hover"])
                .replace("\n", "<br>")
                .format(
                    token=name, id=token, T=f"{T:.3g}", share=percent(share) if share else plotly_text(words["out"])
                )
                for T, share in zip(found.temperatures.tolist(), row, strict=True)
            ]
        )
    cells = [[share or None for share in row] for row in found.probabilities.tolist()]
    ramp = scales("share", "sqrt")
    heat = {
        "type": "heatmap",
        "x": found.temperatures.tolist(),
        "y": names,
        "z": cells,
        "coloraxis": "coloraxis",
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "ygap": 1,
        "hoverongaps": True,
    }
    ticks = [_tick(piece, token == following) for token, piece in zip(found.ids.tolist(), pieces, strict=True)]
    layout = frame_layout(
        {
            "scales": ramp,
            "height": 84 + 20 * len(names),
            "narrow": 100 + 20 * len(names),
            "shapes": _marks(axis),
        }
    ) | {
        "xaxis": _across(axis, words["temperature"]) | {"showgrid": False},
        "yaxis": {
            "tickvals": names,
            "ticktext": ticks,
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "autorange": "reversed",
            "tickfont": {"size": 11},
            "type": "category",
        },
        "coloraxis": {
            "colorscale": ramp["light"],
            "cmin": 0,
            "cmax": 1,
            "colorbar": {
                "thickness": 10,
                "len": 1,
                "outlinewidth": 0,
                "tickformat": ".0%",
                "title": {"text": plotly_text(words["probability"]), "side": "right"},
            },
        },
    }
    return _json([heat], layout)


def width_figure(found: Heated, alone: Heated | None, axis: Axis, words: Mapping[str, str]) -> str:
    """Entropy, effective choices, likeliest token and tokens left against temperature, a panel each; JSON.

    alone: the model's own logits at each temperature, without any other step. Words: temperature, pipeline, alone,
    and each of MEASURES.
    """
    data = []
    for name, each, line in (
        ("alone", alone, {"color": _PLAIN, "width": 2, "dash": "dot"}),
        ("pipeline", found, {"color": HUES[0], "width": 2.5}),
    ):
        if each is None:
            continue
        values = {"entropy": each.entropy, "choices": np.exp(each.entropy), "largest": each.largest, "kept": each.kept}
        for n, measure in enumerate(MEASURES):
            tail, shown = str(n + 1) if n else "", values[measure].tolist()
            told = [percent(value) if measure == "largest" else brief(value) for value in shown]
            hover = [
                f"{plotly_text(words[name])}<br>T = {T:.3g}: {text}"
                for T, text in zip(each.temperatures.tolist(), told, strict=True)
            ]
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": each.temperatures.tolist(),
                    "y": shown,
                    "name": plotly_text(words[name]),
                    "legendgroup": name,
                    "showlegend": n == 0,
                    "line": line,
                    "text": [plotly_text(words[measure])] * len(shown),
                    "hovertext": hover,
                    "hovertemplate": "%{hovertext}<extra></extra>",
                    "xaxis": f"x{tail}",
                    "yaxis": f"y{tail}",
                }
            )
    beside = [([0.255 * n, 0.255 * n + 0.2], [0, 1]) for n in range(4)]
    stacked = [
        ([0.62 * (n % 2), 0.62 * (n % 2) + 0.38], [0.62 - 0.62 * (n // 2), 1 - 0.62 * (n // 2)]) for n in range(4)
    ]
    looks = [_looks(each, words) for each in (found, alone) if each is not None][-1]
    shapes = [
        mark | {"xref": f"x{n + 1 if n else ''}", "yref": f"y{n + 1 if n else ''} domain"}
        for n in range(4)
        for mark in _marks(axis)
    ]
    meta = {"height": 270, "narrow": 460, "shapes": shapes, "stacked": _panels(stacked, looks, axis, words)}
    legend = {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"}
    layout = (
        frame_layout(meta)
        | _panels(beside, looks, axis, words)
        | {
            "showlegend": alone is not None,
            "legend": legend,
            "hovermode": "closest",
        }
    )
    return _json(data, layout)


def _looks(widest: Heated, words: Mapping[str, str]) -> list[dict]:
    """How each panel's axis goes: choices and tokens left by powers of ten."""
    top = [math.log10(max(10.0, float(values.max()))) + 0.06 for values in (np.exp(widest.entropy), widest.kept)]
    power = [{"type": "log", "range": [-0.06, high], "dtick": 1} for high in top]
    return [{"rangemode": "tozero"}, power[0], {"range": [0, 1.03], "tickformat": ".0%"}, power[1]]


def _panels(domains: Sequence[tuple], looks: Sequence[dict], axis: Axis, words: Mapping[str, str]) -> dict:
    layout = {}
    for n, (measure, (across, up), look) in enumerate(zip(MEASURES, domains, looks, strict=True)):
        tail = str(n + 1) if n else ""
        few = {"tickvals": _FEW, "ticktext": [f"{T:g}" for T in _FEW]} if axis.logarithmic else {"dtick": 1}
        layout[f"xaxis{tail}"] = (
            _across(axis, words["temperature"])
            | few
            | {
                "domain": list(across),
                "anchor": f"y{tail}",
                "tickangle": 0,
            }
        )
        layout[f"yaxis{tail}"] = {
            "domain": list(up),
            "anchor": f"x{tail}",
            "automargin": True,
            "zeroline": False,
            "title": {"text": plotly_text(words[measure]), "standoff": 6},
        } | look
    return layout


def _across(axis: Axis, title: str) -> dict:
    """The axis of temperatures."""
    common = {"title": {"text": plotly_text(title), "standoff": 8}, "automargin": True, "zeroline": False}
    if not axis.logarithmic:
        return common | {"range": [0, 3.04], "dtick": 0.5}
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 3]
    span = [math.log10(0.0475), math.log10(3.16)]
    return common | {"type": "log", "range": span, "tickvals": ticks, "ticktext": [f"{T:g}" for T in ticks]}


def _marks(axis: Axis) -> list[dict]:
    """A line at the pipeline's own temperature."""
    if axis.now is None or not 0.05 <= axis.now <= 3:
        return []
    return [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": axis.now,
            "x1": axis.now,
            "y0": 0,
            "y1": 1,
            "line": {"color": HUES[4], "width": 2, "dash": "dash"},
        }
    ]


def _tick(piece: str, comes: bool) -> str:
    text = plotly_text(shorten(visible(piece)))
    return f"<b>◆ {text}</b>" if comes else text


def _json(data: list[dict], layout: dict) -> str:
    return json.dumps({"data": data, "layout": layout}, ensure_ascii=False, allow_nan=False)
