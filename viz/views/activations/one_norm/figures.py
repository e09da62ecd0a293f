"""Figures of one norm: its steps on one token, in displayed digits that add up, and histograms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GREEN, LEGEND, ORANGE, PINK, RED, axis
from viz.charts.lines import band, bars, grid, line, token_data
from viz.labels import plotly_text
from viz.numbers import decimals, number, plain
from viz.theme import HUES

LARGEST, FIRST = 8, 4  # numbers of dimensions in the table: those with the largest |x|, and the first ones
TAIL = 0.001  # fraction of the values that a histogram omits at each end if they would compress the rest
BINS = 80
POINTS = 300  # maximum number of points drawn as markers, each an element of the page; more are drawn as a line
HEIGHT, NARROW = 300, 560  # heights in pixels of two panels, side by side and stacked
SITES = {"embed_norm": HUES[5], "norm1": BLUE, "after1": PINK, "norm2": ORANGE, "after2": RED, "final": GREEN}

# One formula per step: Ba et al. 2016, eq. 3 and 4; Zhang & Sennrich 2019, eq. 4.
SIGNS = {"x": "x", "centred": "x − μ", "normalised": "n", "scaled": "n · γ", "out": "n · γ + β"}
LETTERS = {
    "centred": "x − μ\nμ = (1/D) Σ x_d",
    "layernorm": "n = (x − μ) / √(σ² + ε)\nσ² = (1/D) Σ (x_d − μ)²",
    "rmsnorm": "n = x / √(m + ε)\nm = (1/D) Σ x_d²",
    "scaled": "n · γ",
    "out": "n · γ + β",
}


# --- one token: `walk` is a model.activations.norm_walk.Walk or has its fields -----------------------


def shown_dimensions(x: np.ndarray) -> list[int]:
    """Return the LARGEST dimensions by |x| in decreasing order, then those of the first FIRST dimensions that are not
    among them. x [D]
    """
    largest = [int(d) for d in np.argsort(-np.abs(x), kind="stable")[:LARGEST]]
    return largest + [d for d in range(min(FIRST, len(x))) if d not in largest]


def decimals_for(values: np.ndarray) -> int:
    """Compute the number of decimals that gives the largest magnitude six significant digits, clamped to 3 to 8."""
    top = float(np.abs(values).max(initial=0))
    return min(max(5 - math.floor(math.log10(top)), 3), 8) if top else 3


def walk_table(walk: Any) -> dict:
    """Build the table of the steps for selected dimensions. x − μ and n · γ + β are exact in the displayed digits.

    {"columns": [signs], "rows": [{"d", "cells": [[displayed, in full], ...]}], "mean": displayed, or None for RMSNorm}
    """
    at = shown_dimensions(walk.x)
    mean = walk.mean or 0.0
    dx = decimals_for(np.append(walk.x[at], mean))
    dn = decimals_for(walk.normalized[at])
    parts = [walk.gain[at], walk.scaled[at], walk.out[at], *([] if walk.bias is None else [walk.bias[at]])]
    dy = decimals_for(np.concatenate(parts))
    columns = ["x", *(["x − μ"] if walk.mean is not None else []), "n", "γ", "n · γ"]
    columns += ["β", "n · γ + β"] if walk.bias is not None else []
    rows = [{"d": d, "cells": _cells(walk, d, (dx, dn, dy))} for d in at]
    return {"columns": columns, "rows": rows, "mean": None if walk.mean is None else decimals(walk.mean, dx)}


def _cells(walk: Any, d: int, places: tuple[int, int, int]) -> list[list]:
    """Build the cells of one row, [displayed, in full] each: one per column, then the model's own output."""
    dx, dn, dy = places
    cells = [(walk.x[d], round(walk.x[d], dx), dx)]
    if walk.mean is not None:  # from the displayed numbers, so that the subtraction is exact on the page
        cells.append((walk.centered[d], round(walk.x[d], dx) - round(walk.mean, dx), dx))
    cells += [(value[d], value[d], n) for value, n in ((walk.normalized, dn), (walk.gain, dy), (walk.scaled, dy))]
    if walk.bias is not None:
        both = round(walk.scaled[d], dy) + round(walk.bias[d], dy)
        cells += [(walk.bias[d], walk.bias[d], dy), (walk.out[d], both, dy)]
    cells.append((walk.model_out[d], walk.model_out[d], dy))
    return [[decimals(float(shown), n), float(value)] for value, shown, n in cells]


def walk_steps(walk: Any, words: Mapping[str, str]) -> list[dict]:
    """Build the steps in the order of the formula.

    Each is {"name", "title", "sign", "letters", "numbers", "values" [D], "top"}. `words`: "numbers_x", "span", and
    "step_<name>" of each step.
    """
    steps = [_step("x", "x ∈ ℝᴰ", words["numbers_x"].format(D=len(walk.x), **_range(walk.x)), walk.x)]
    if walk.mean is not None:
        steps.append(_step("centred", LETTERS["centred"], f"μ = {number(walk.mean)}", walk.centered))
    sign = "σ²" if walk.kind == "layernorm" else "m"
    divided = f"{sign} = {number(walk.spread)}, ε = {number(walk.eps)}\n√({sign} + ε) = {number(walk.divisor)}"
    steps.append(_step("normalised", LETTERS[walk.kind], divided, walk.normalized))
    steps.append(_step("scaled", LETTERS["scaled"], f"γ: {words['span'].format(**_range(walk.gain))}", walk.scaled))
    if walk.bias is not None:
        steps.append(_step("out", LETTERS["out"], f"β: {words['span'].format(**_range(walk.bias))}", walk.out))
    return [step | {"title": words[f"step_{step['name']}"]} for step in steps]


def _range(values: np.ndarray) -> dict[str, str]:
    return {"low": number(float(values.min())), "high": number(float(values.max()))}


def _step(name: str, letters: str, numbers: str, values: np.ndarray) -> dict:
    return {
        "name": name,
        "sign": SIGNS[name],
        "letters": letters,
        "numbers": numbers,
        "top": number(float(np.abs(values).max())),
        "values": [plain(value, 5) for value in values.tolist()],
    }


# --- two panels -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormPanel:
    """One panel of a figure."""

    traces: Sequence[Any]  # Plotly traces
    x: str  # axis titles, with units
    y: str
    more: Mapping[str, Any] = field(default_factory=dict)  # options of the x axis


def panels_figure(sides: Sequence[NormPanel]) -> go.Figure:
    """Draw one panel, or two panels side by side that are stacked on a narrow page."""
    names = [str(n) for n in range(len(sides))]
    x = {name: axis(side.x, {"showgrid": False, **side.more}) for name, side in zip(names, sides, strict=True)}
    y = {name: axis(side.y, {"rangemode": "tozero"}) for name, side in zip(names, sides, strict=True)}
    traces = {name: side.traces for name, side in zip(names, sides, strict=True)}
    narrow = NARROW if len(sides) > 1 else HEIGHT
    figure = grid(traces, x, y, height=HEIGHT, narrow=narrow, legend=LEGEND, columns=(len(sides), 1))
    return figure.update_layout(bargap=0)  # otherwise thin gaps show between the bars


# --- histograms -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counted:
    """A histogram, without the extreme values if they would compress the rest."""

    edges: np.ndarray  # [n + 1]
    counts: np.ndarray  # [n]
    outside: int  # number of values beyond the edges
    low: float  # smallest and largest of all values
    high: float


def counted(values: np.ndarray) -> Counted:
    """Build a histogram of at most BINS bins, of only the central 99.8% of the values if the tails are much longer."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    low, high = float(flat.min()), float(flat.max())
    start, end = np.quantile(flat, (TAIL, 1 - TAIL))
    if high - low < 2 * (end - start) or start == end:
        start, end = low, high
    bins = min(BINS, max(8, math.isqrt(len(flat)) * 2))
    counts, edges = np.histogram(flat, bins, (start, end))
    return Counted(edges, counts, len(flat) - int(counts.sum()), low, high)


def histogram(values: Counted, name: str, unit: str, color: str) -> go.Bar:
    """Draw a histogram that shows the bounds of each bin on hover. `unit` names the counted quantity."""
    edges = values.edges
    ends = [f"{number(low)} … {number(high)}" for low, high in pairwise(edges)]
    middle = ((edges[:-1] + edges[1:]) / 2).tolist()
    hover, more = f"%{{text}}: %{{y}} {plotly_text(unit)}", {"width": float(edges[1] - edges[0]), "showlegend": False}
    return bars(name, middle, values.counts, color, hover=hover, text=ends, more=more)


# --- all norms, and BatchNorm -----------------------------------------------------------------------


def spread_traces(
    table: np.ndarray, places: Sequence[tuple[int, str]], words: Mapping[str, str], legend: bool
) -> list[go.Scatter]:
    """Draw the 5%, 50% and 95% quantiles of a parameter by layer, in one color per site.

    `table` [norms, 3]; `places`: the layer and site of each row. `words`: a name for each site, "low", "median",
    "high", "layer".
    """
    traces, hover = [], f"{plotly_text(words['layer'])} %{{x}}: %{{y:.4g}}"
    for site, color in SITES.items():
        rows = [n for n, place in enumerate(places) if place[1] == site]
        if not rows:
            continue
        x, names = [places[n][0] for n in rows], {part: f"{words[site]}: {words[part]}" for part in _PARTS}
        low, median, high = table[rows].T
        edges = band(words[site], x, low, high, color, edges=(names["low"], names["high"]), hover=hover)
        style: dict = {"legendgroup": plotly_text(words[site]), "showlegend": legend}
        if len(rows) == 1:  # a band over one layer has no width
            tick = {"size": 5, "color": color, "symbol": "line-ew-open"}
            edges = [edge.update(mode="markers", marker=tick) for edge in edges]
            style["marker"] = {"size": 9, "color": color, "symbol": "diamond"}
        traces += [*edges, line(names["median"], x, median, color, hover=hover, more=style)]
    return traces


_PARTS = ("low", "median", "high")


def size_traces(
    sizes: np.ndarray, batch: np.ndarray, names: tuple[str, str], labels: Sequence[str], *, pick: bool = False
) -> list[go.Scatter]:
    """Draw one series of points for the model's norm and one for BatchNorm. sizes, batch [n]

    With `pick`, a click selects a token.
    """
    n = len(sizes)
    traces = []
    for values, name, color in ((batch, names[1], ORANGE), (sizes, names[0], BLUE)):
        more: dict = {"mode": "markers" if n <= POINTS else "lines", "legendgroup": plotly_text(name)}
        more |= {"showlegend": pick, "marker": {"size": 5 if pick else 4, "color": color}}
        more |= {"customdata": token_data(n)} if pick else {}
        traces.append(line(name, range(n), values, color, hover="%{text}: %{y:.4g}", text=labels, width=1, more=more))
    return traces
