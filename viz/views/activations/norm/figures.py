"""One norm in pictures: its steps on one token as numbers that add up, and its values, gains and bias as histograms.

`found` is a model.norm_walk.Walk, or anything with its fields.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from model.records import Tokens
from viz.labels import axis_name, plotly_text
from viz.theme import HUES, frame_layout

LARGEST, FIRST = 8, 4  # dimensions of the table: those with the largest |x|, and the first ones besides
TAIL = 0.001  # share of the values that a histogram leaves out at either end, where they would flatten the rest
BINS = 80
POINTS = 300  # beyond which a row of points is drawn as one line: each point is an element of the page
HEIGHT, NARROW = 300, 560  # pixels of two panels beside, and below one another
SITES = ("norm1", "norm2", "final")

# Formulas in letters, one a step: Ba et al. 2016, eq. 3 and 4; Zhang & Sennrich 2019, eq. 4.
SIGNS = {"x": "x", "centred": "x − μ", "normalised": "n", "scaled": "n · γ", "out": "n · γ + β"}
LETTERS = {
    "centred": "x − μ\nμ = (1/D) Σ x_d",
    "layernorm": "n = (x − μ) / √(σ² + ε)\nσ² = (1/D) Σ (x_d − μ)²",
    "rmsnorm": "n = x / √(m + ε)\nm = (1/D) Σ x_d²",
    "scaled": "n · γ",
    "out": "n · γ + β",
}


def told(value: float) -> str:
    """A number in a sentence: four significant digits, with a proper minus sign."""
    return f"{value:.4g}".replace("-", "−")


# --- one token --------------------------------------------------------------------------------------


def shown_dimensions(x: np.ndarray) -> list[int]:
    """The dimensions with the largest |x|, the largest first, and then the first ones that are not among them. x [D]"""
    largest = [int(d) for d in np.argsort(-np.abs(x), kind="stable")[:LARGEST]]
    return largest + [d for d in range(min(FIRST, len(x))) if d not in largest]


def decimals_for(values: np.ndarray) -> int:
    """Decimals that show the largest of some values with six significant digits; 3 to 8."""
    top = float(np.abs(values).max(initial=0))
    return min(max(5 - math.floor(math.log10(top)), 3), 8) if top else 3


def _fixed(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def walk_table(found) -> dict:
    """The steps of some dimensions, as shown: x − μ and n · γ + β add up in the digits that are shown.

    {"columns": [signs], "rows": [{"d", "cells": [[shown, in full], ...]}], "mean": as shown or None}
    """
    at = shown_dimensions(found.x)
    mean = found.mean or 0.0
    dx = decimals_for(np.append(found.x[at], mean))
    dn = decimals_for(found.normalised[at])
    parts = [found.gain[at], found.scaled[at], found.out[at], *([] if found.bias is None else [found.bias[at]])]
    dy = decimals_for(np.concatenate(parts))
    columns = ["x", *(["x − μ"] if found.mean is not None else []), "n", "γ", "n · γ"]
    columns += ["β", "n · γ + β"] if found.bias is not None else []
    rows = [{"d": d, "cells": _cells(found, d, (dx, dn, dy))} for d in at]
    return {"columns": columns, "rows": rows, "mean": None if found.mean is None else _fixed(found.mean, dx)}


def _cells(found, d: int, decimals: tuple[int, int, int]) -> list[list]:
    """One line of the table: [as shown, in full] for each column, the model's own output last."""
    dx, dn, dy = decimals
    line = [(found.x[d], round(found.x[d], dx), dx)]
    if found.mean is not None:  # from what is shown, so that a reader who subtracts finds this
        line.append((found.centred[d], round(found.x[d], dx) - round(found.mean, dx), dx))
    line += [(value[d], value[d], n) for value, n in ((found.normalised, dn), (found.gain, dy), (found.scaled, dy))]
    if found.bias is not None:
        both = round(found.scaled[d], dy) + round(found.bias[d], dy)
        line += [(found.bias[d], found.bias[d], dy), (found.out[d], both, dy)]
    line.append((found.model_out[d], found.model_out[d], dy))
    return [[_fixed(float(said), n), float(value)] for value, said, n in line]


def walk_steps(found, words: Mapping[str, str]) -> list[dict]:
    """The steps in the order of the formula: {"name", "sign", "letters", "numbers", "values" [D], "top"}."""
    span = words["span"]
    steps = [_step("x", "x ∈ ℝᴰ", words["numbers_x"].format(D=len(found.x), **_range(found.x)), found.x)]
    if found.mean is not None:
        steps.append(_step("centred", LETTERS["centred"], f"μ = {told(found.mean)}", found.centred))
    sign = "σ²" if found.kind == "layernorm" else "m"
    divided = f"{sign} = {told(found.spread)}, ε = {told(found.eps)}\n√({sign} + ε) = {told(found.divisor)}"
    steps.append(_step("normalised", LETTERS[found.kind], divided, found.normalised))
    steps.append(_step("scaled", LETTERS["scaled"], f"γ: {span.format(**_range(found.gain))}", found.scaled))
    if found.bias is not None:
        steps.append(_step("out", LETTERS["out"], f"β: {span.format(**_range(found.bias))}", found.out))
    return steps


def _range(values: np.ndarray) -> dict[str, str]:
    return {"low": told(float(values.min())), "high": told(float(values.max()))}


def _step(name: str, letters: str, numbers: str, values: np.ndarray) -> dict:
    top = float(np.abs(values).max())
    return {
        "name": name,
        "sign": SIGNS[name],
        "letters": letters,
        "numbers": numbers,
        "top": told(top),
        "values": [float(f"{value:.5g}") for value in values.tolist()],
    }


# --- two panels -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Side:
    """One of the panels of a figure."""

    traces: Sequence  # of Plotly
    x: str  # names of the axes, with units
    y: str
    look: dict | None = None  # more of the x axis


def panels(sides: Sequence[Side], *, legend: bool = False) -> go.Figure:
    """One panel, or two beside one another that stand below one another on a narrow page."""
    meta = {"height": HEIGHT, "narrow": NARROW if len(sides) > 1 else HEIGHT}
    if len(sides) > 1:
        meta["stacked"] = _axes(sides, [([0, 1], [0.6, 1]), ([0, 1], [0, 0.4])])
    beside = [([0, 0.46], [0, 1]), ([0.54, 1], [0, 1])] if len(sides) > 1 else [([0, 1], [0, 1])]
    traces = []
    for n, side in enumerate(sides):
        tail = str(n + 1) if n else ""
        traces += [trace.update(xaxis=f"x{tail}", yaxis=f"y{tail}") for trace in side.traces]
    layout = frame_layout(meta) | {"showlegend": legend, "bargap": 0, "hovermode": "closest"}
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return go.Figure(traces, layout | _axes(sides, beside))


def _axes(sides: Sequence[Side], domains: Sequence[tuple[list, list]]) -> dict:
    layout = {}
    for n, (side, (across, up)) in enumerate(zip(sides, domains, strict=True)):
        tail = str(n + 1) if n else ""
        common = {"automargin": True, "zeroline": False}
        layout[f"xaxis{tail}"] = (
            common
            | {"domain": across, "anchor": f"y{tail}", "title": _title(side.x), "showgrid": False}
            | (side.look or {})
        )
        layout[f"yaxis{tail}"] = common | {
            "domain": up,
            "anchor": f"x{tail}",
            "title": _title(side.y),
            "rangemode": "tozero",
        }
    return layout


def _title(text: str) -> dict:
    return {"text": plotly_text(text), "standoff": 8}


# --- histograms -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counted:
    """A histogram, without the few values at its ends that would flatten the rest."""

    edges: np.ndarray  # [n + 1]
    counts: np.ndarray  # [n]
    outside: int
    low: float  # of all values
    high: float


def counted(values: np.ndarray) -> Counted:
    """At most BINS bins over the middle 99.8 % of the values where the tails reach far beyond it, else over all."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    low, high = float(flat.min()), float(flat.max())
    start, end = np.quantile(flat, (TAIL, 1 - TAIL))
    if high - low < 2 * (end - start) or start == end:
        start, end = low, high
    bins = min(BINS, max(8, math.isqrt(len(flat)) * 2))
    counts, edges = np.histogram(flat, bins, (start, end))
    return Counted(edges, counts, len(flat) - int(counts.sum()), low, high)


def histogram(found: Counted, name: str, unit: str, colour: str) -> go.Bar:
    """Bars, with the ends of each on hover. `unit` names what is counted."""
    middle = (found.edges[:-1] + found.edges[1:]) / 2
    ends = [[told(low), told(high)] for low, high in zip(found.edges[:-1], found.edges[1:], strict=True)]
    return go.Bar(
        x=middle.tolist(),
        y=found.counts.tolist(),
        width=float(found.edges[1] - found.edges[0]),
        name=plotly_text(name),
        customdata=ends,
        marker={"color": colour, "line": {"width": 0}},
        hovertemplate=f"{plotly_text(name)}<br>%{{customdata[0]}} … %{{customdata[1]}}: %{{y}} {plotly_text(unit)}"
        "<extra></extra>",
    )


# --- all norms, and BatchNorm -----------------------------------------------------------------------


def spread_traces(table: np.ndarray, places: Sequence[tuple[int, str]], said: Mapping[str, str]) -> list[go.Scatter]:
    """5 %, median and 95 % of a parameter by layer, a colour a site. table [norms, 3]; `said` names sites and lines."""
    traces = []
    for site, colour in zip(SITES, (HUES[0], HUES[4], HUES[2]), strict=True):
        rows = [n for n, place in enumerate(places) if place[1] == site]
        if not rows:
            continue
        x, name = [places[n][0] for n in rows], said[site]
        dot = {"size": 5 if len(rows) > 1 else 9, "color": colour, "symbol": "circle" if len(rows) > 1 else "diamond"}
        for column, part in ((0, "low"), (2, "high"), (1, "median")):
            middle = part == "median"
            traces.append(
                go.Scatter(
                    x=x,
                    y=table[rows, column].tolist(),
                    name=plotly_text(f"{name}: {said[part]}"),
                    legendgroup=site,
                    mode="lines+markers" if middle or len(rows) == 1 else "lines",
                    showlegend=middle,
                    marker=dot if middle else dot | {"size": 5, "symbol": "line-ew-open"},
                    line={"color": colour, "width": 2 if middle else 0.5},
                    fill="tonexty" if column == 2 else None,
                    fillcolor=_pale(colour),
                    hovertemplate=_hover(f"{name}: {said[part]}", said["layer"]),
                )
            )
    return traces


def _pale(colour: str) -> str:
    return "rgba({},{},{},0.15)".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


def _hover(name: str, x: str) -> str:
    return f"{plotly_text(name)}<br>{plotly_text(x)} %{{x}}: %{{y:.4g}}<extra></extra>"


def size_traces(
    own: np.ndarray, batch: np.ndarray, names: tuple[str, str], label: Callable[[int], str], *, pick: bool = False
) -> list[go.Scatter]:
    """Two rows of points, the model's norm and BatchNorm; with `pick` a click on one picks its token. own, batch [n]"""
    text = [label(i) for i in range(len(own))]
    return [
        go.Scatter(
            x=list(range(len(values))),
            y=np.asarray(values).tolist(),
            name=plotly_text(name),
            legendgroup=name,
            mode="markers" if len(own) <= POINTS else "lines",
            marker={"size": 5 if pick else 4, "color": colour},
            line={"width": 1, "color": colour},
            showlegend=pick,
            text=text,
            customdata=[{"tokens": [i]} for i in range(len(values))] if pick else None,
            hovertemplate=f"{plotly_text(name)}<br>%{{text}}: %{{y:.4g}}<extra></extra>",
        )
        for values, name, colour in ((batch, names[1], HUES[4]), (own, names[0], HUES[0]))
    ]


def token_label(tokens: Tokens) -> Callable[[int], str]:
    """Position and text of a token, for hover."""
    return lambda i: axis_name(i, tokens.pieces[i])
