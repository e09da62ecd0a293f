"""Figures of the parts of a logit: a map of all parts, the accumulation by layer, a head's sources, and gradients."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from viz.charts.axes import ZERO, axis, figure, token_axis
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.charts.lines import bars
from viz.labels import plotly_text, visible
from viz.numbers import signed
from viz.theme import HUES, SIGNED, frame_layout

_LAYERS = 16  # maximum number of layers labeled on an axis
_PLAIN = {"template": {}}  # prevents Plotly from adding its default template of several kilobytes
_DOWN, _UP = SIGNED[1], SIGNED[-2]  # orange and purple, visible on light and dark pages
_PATTERNS = {
    "mlp": "/",
    "bias": ".",
    "embedding": "x",
    "position": "x",
    "entry": "x",
}  # fill patterns; attention has none


# --- map of all parts -------------------------------------------------------------------------------


def map_figure(heads: np.ndarray, mlps: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw the grid of heads, with a strip of the MLPs at its right, on one signed color scale.

    heads [L, H], mlps [L]. Keys of `words`: `axis_layer`, `axis_head`, `value`, `unit`, `mlp`.
    """
    L, H = heads.shape
    names = EffectWords(words["axis_layer"], words["axis_head"], words["value"], words["unit"])
    grid = effect_figure(heads, names, signed=True).to_plotly_json()
    layout, top = grid["layout"], max(float(np.abs(heads).max()), float(np.abs(mlps).max())) or 1.0
    name, value, unit = (plotly_text(words[key]) for key in ("mlp", "value", "unit"))
    strip = {
        "type": "heatmap",
        "z": mlps[:, None].tolist(),
        "x": [name],
        "y": list(range(L)),
        "xaxis": "x2",
        "name": name,
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "customdata": [[{"part": layer}] for layer in range(L)],
        "hovertemplate": f"{name} %{{y}}<br>{value}: %{{z:+.5f}} {unit}<extra></extra>",
    }
    share = 1 / (H + 1.5)
    layout |= _PLAIN
    layout["coloraxis"] |= {"cmin": -top, "cmax": top}
    layout["xaxis"] |= {"domain": [0, 1 - 1.5 * share]}
    layout["xaxis2"] = axis("", {"domain": [1 - share, 1], "showgrid": False})
    data = [grid["data"][0] | {"name": plotly_text(words["axis_head"])}, strip]
    return go.Figure({"data": data, "layout": layout})


def strongest(parts: pd.DataFrame, limit: int = 6) -> dict[str, list[dict]]:
    """Return the parts that raise and lower the logit most, {"up": [...], "down": [...]}, by decreasing magnitude.

    Each part is {"kind", "layer", "head", "value"}. `parts` is the result of
    model.predictions.attribution.Attribution.parts.
    """
    rows = parts.to_dict("records")
    up = sorted((row for row in rows if row["value"] > 0), key=lambda row: -row["value"])
    down = sorted((row for row in rows if row["value"] < 0), key=lambda row: row["value"])
    return {"up": up[:limit], "down": down[:limit]}


# --- accumulation by layer --------------------------------------------------------------------------


def steps_of(parts: pd.DataFrame) -> list[dict]:
    """Sum the parts by layer and kind, in the order in which the model adds them, with the running total.

    Each step is {"kind", "layer", "value", "total"}; kinds are those of `order`.
    """
    order = ("embedding", "position", "attention", "mlp", "bias", "entry", "edit")
    summed: dict[tuple[int, str], float] = {}
    for kind, layer, value in parts[["kind", "layer", "value"]].itertuples(index=False):
        place = (layer, "attention" if kind == "head" else kind if kind in order else "bias")
        summed[place] = summed.get(place, 0.0) + value
    steps, total = [], 0.0
    for layer, kind in sorted(summed, key=lambda place: (place[0], order.index(place[1]))):
        total += summed[layer, kind]
        steps.append({"kind": kind, "layer": layer, "value": summed[layer, kind], "total": total})
    return steps


def layers_figure(steps: Sequence[dict], layers: int, words: Mapping[str, str]) -> go.Figure:
    """Draw each step as a bar from the total before it to the total after it, purple if it rises, orange if it falls.

    Keys of `words`: `kind_<kind>`, `kind_final`, `axis_layer`, `value`, `unit`, `total`, `axis_total`.
    """
    names = [_step_name(step, layers, words) for step in steps]
    value, unit, total = (plotly_text(words[key]) for key in ("value", "unit", "total"))
    traces = []
    for kind in dict.fromkeys(step["kind"] for step in steps):
        steps_of_kind = [(name, step) for name, step in zip(names, steps, strict=True) if step["kind"] == kind]
        traces.append(
            {
                "type": "bar",
                "name": plotly_text(words[f"kind_{kind}"]),
                "x": [name for name, _ in steps_of_kind],
                "y": [step["value"] for _, step in steps_of_kind],
                "base": [step["total"] - step["value"] for _, step in steps_of_kind],
                "hovertext": [signed(step["value"], 6) for _, step in steps_of_kind],
                "hovertemplate": f"%{{x}}<br>{value}: %{{hovertext}} {unit}<br>{total}: %{{y:.5f}}<extra></extra>",
                "marker": {
                    "color": [_UP if step["value"] >= 0 else _DOWN for _, step in steps_of_kind],
                    "pattern": {
                        "shape": _PATTERNS.get(kind, ""),
                        "size": 5,
                        "fillmode": "overlay",
                        "fgcolor": "#ffffff",
                        "fgopacity": 0.75,
                    },
                },
            }
        )
    between = list(zip(names[:-1], names[1:], steps[:-1], strict=True))  # from a bar's end to the next bar's start
    running = {
        "type": "scatter",
        "mode": "lines",
        "name": total,
        "hoverinfo": "skip",
        "line": {"width": 1, "color": HUES[-1]},
        "x": [x for before, after, _ in between for x in (before, after, None)],
        "y": [y for _, _, step in between for y in (step["total"], step["total"], None)],
    }
    ticks = [(name, step) for name, step in zip(names, steps, strict=True) if _named_on_axis(step, layers)]
    texts = [str(step["layer"]) for _, step in ticks]
    across = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "tickmode": "array",
        "tickvals": [name for name, _ in ticks],
        "ticktext": texts,
        "tickangle": 0,
        "showgrid": False,
    }
    layout = (
        frame_layout({"height": 320, "narrow": 320})
        | _PLAIN
        | {
            "barmode": "overlay",
            "bargap": 0.15,
            "showlegend": False,
            "xaxis": axis(words["axis_layer"], across),
            "yaxis": axis(words["axis_total"], ZERO),
        }
    )
    return go.Figure({"data": [*traces, running], "layout": layout})


def _step_name(step: dict, layers: int, words: Mapping[str, str]) -> str:
    """Format the unique axis name of a step."""
    if step["layer"] == layers:
        return plotly_text(words["kind_final"])
    kind = words[f"kind_{step['kind']}"]
    return plotly_text(kind if step["layer"] < 0 else f"{kind} {step['layer']}")


def _named_on_axis(step: dict, layers: int) -> bool:
    """Return whether the axis labels a step: attention of each layer, or of every n-th layer of a deep model."""
    return step["kind"] == "attention" and step["layer"] % -(-layers // _LAYERS) == 0


# --- by token ---------------------------------------------------------------------------------------


def tokens_figure(
    series: Mapping[str, np.ndarray], pieces: Sequence[str], position: int, words: Mapping[str, str]
) -> go.Figure:
    """Draw one bar per token for each series [n], n = position + 1; a single series is colored by sign.

    A click on a bar selects its token together with `position`. Keys of `words`: `axis_token`, `value`, `unit`.
    """
    shown = pieces[: position + 1]
    texts = [plotly_text(visible(piece)) for piece in shown]
    clicks = [{"tokens": [position] if s == position else [position, s]} for s in range(len(shown))]
    value, unit, single, traces = words["value"], plotly_text(words["unit"]), len(series) == 1, []
    for n, (name, values) in enumerate(series.items()):
        label = plotly_text(value if single else name)
        template = f"%{{x}} %{{text}}<br>{label}: %{{y:+.5f}} {unit}<extra></extra>"
        more: dict = {"customdata": clicks, "hovertemplate": template}
        if single:
            more["marker"] = {"color": [_UP if x >= 0 else _DOWN for x in values], "line": {"width": 0}}
        traces.append(bars(name, range(len(shown)), values, HUES[n], hover="", text=texts, more=more))
    y, layout = axis(f"{value} ({words['unit']})"), {"barmode": "group", "bargap": 0.15, "showlegend": not single}
    return figure(traces, token_axis(words["axis_token"], shown), y, height=300, more=_PLAIN | layout)


def _from_middle(share: float) -> dict:
    """Build a bar from the middle of its cell, which represents 0, toward the side of its sign. `share`: -1 to 1"""
    return {"from": 0.5 + min(share, 0.0) / 2, "to": 0.5 + max(share, 0.0) / 2, "hue": _UP if share >= 0 else _DOWN}


def token_rows(ids: np.ndarray, values: np.ndarray, pieces: Sequence[str], top: float) -> list[list]:
    """Build the rows of tokens, each with a bar from the middle of its cell and a number. ids and values [n]

    `top`: the value of a bar of maximum length.
    """
    return [
        [{"text": visible(piece), "token": int(number)}, {"bars": [_from_middle(value / top)]}, signed(value)]
        for number, value, piece in zip(ids, values, pieces, strict=True)
    ]
