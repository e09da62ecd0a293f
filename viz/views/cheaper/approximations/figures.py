"""Figures of softmax and its approximations: attention maps, their difference, errors by size, and model losses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, LEGEND, LOG, ORANGE, axis, figure, token_axis, token_names
from viz.charts.heatmap import Look, Panel
from viz.charts.lines import guide, line, runs, stacked, token_data
from viz.labels import plotly_text
from viz.numbers import number
from viz.theme import HUES

COLORS = {
    "performer": HUES[0],
    "performer_orthogonal": HUES[5],
    "linear": HUES[3],
    "linformer": HUES[4],
    "linformer_mean": HUES[1],
    "nystrom": HUES[2],
}


@dataclass(frozen=True, eq=False)
class ApproximationLine:
    """The values of one kind of approximation by size."""

    key: str  # a key of COLORS
    name: str
    sizes: Sequence[int]  # a single entry, 0, for a method without a size
    values: np.ndarray  # [draws, sizes]


def panels(exact: np.ndarray, approximate: np.ndarray, names: tuple[str, str]) -> list[Panel]:
    """Build the panels of the exact and the approximate attention map [T, T], with the future blank."""
    return [Panel(name, _blank(z)) for name, z in zip(names, (exact, approximate), strict=True)]


def difference_panel(exact: np.ndarray, approximate: np.ndarray, name: str) -> list[Panel]:
    """Build the panel of the approximate attention map minus the exact one, [T, T] each."""
    return [Panel(name, _blank(approximate - exact))]


def _blank(z: np.ndarray) -> np.ndarray:
    return np.where(np.triu(np.ones(z.shape, bool), 1), np.nan, z).astype(np.float32)


def look_of(weights: np.ndarray) -> Look:
    """Return the color scale of a map: from 0 to 1, or signed if a weight falls outside this range."""
    return Look() if weights.min() >= -1e-6 and weights.max() <= 1 + 1e-6 else Look("signed")


def sweep_figure(
    lines: Sequence[ApproximationLine], uniform: float, chosen: tuple[int, float] | None, words: Mapping[str, str]
) -> go.Figure:
    """Draw the error as a function of size on logarithmic axes, as mean and range over the draws.

    A method without a size is a flat line. `uniform`: error of uniform attention; `chosen`: size and error of the
    approximation on the maps. `words`: "size", "error", "uniform", "chosen".
    """
    sizes = sorted({size for each in lines for size in each.sizes if size})
    ends, hover = [sizes[0], sizes[-1]], f"{plotly_text(words['size'])} %{{x:,}}: %{{y:.4~g}}"
    traces: list = [guide(words["uniform"], ends, [uniform] * 2)]
    for each in lines:
        color, values = COLORS[each.key], np.where(each.values > 0, each.values, np.nan)
        if each.sizes == (0,):
            flat = {"mode": "lines"}
            traces.append(line(each.name, ends, [values[0, 0]] * 2, color, hover="%{y:.4~g}", dash="dash", more=flat))
        elif len(values) > 1:
            traces += runs(each.name, each.sizes, values, color, hover=hover)
        else:
            positive = ~np.isnan(values[0])
            traces.append(
                line(each.name, np.array(each.sizes)[positive].tolist(), values[0][positive], color, hover=hover)
            )
    if chosen and chosen[1] > 0:
        ring = {"size": 15, "color": GRAY, "symbol": "circle-open", "line": {"width": 3}}
        look = {"mode": "markers", "marker": ring}
        traces.append(line(words["chosen"], [chosen[0]], [chosen[1]], GRAY, hover=hover, more=look))
    drawn = [float(v) for trace in traces for v in trace.y if v]
    y = axis(words["error"], LOG | _steps(min(drawn), max(drawn)))
    return figure(traces, _size_axis(words["size"], sizes), y, height=420, narrow=480)


def _steps(low: float, high: float) -> dict:
    """Build the ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or only powers of ten on a long axis."""
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [first * 10.0**ten for ten in tens for first in ((1, 2, 5) if len(tens) < 5 else (1,))]
    return {"tickmode": "array", "tickvals": values, "ticktext": [number(each) for each in values]}


def _size_axis(title: str, sizes: Sequence[int]) -> dict:
    return axis(title, LOG | {"tickmode": "array", "tickvals": list(sizes), "ticktext": [f"{n:,}" for n in sizes]})


def rows_figure(distance: np.ndarray, off: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the distance of each row of the map and the error of its output in two panels, one above the other.

    distance, off [T]. `words`: "distance", "off", "query".
    """
    T, x = len(off), list(range(len(off)))
    names, plots = token_names(pieces), {}
    for key, values, color in (("distance", distance, BLUE), ("off", off, ORANGE)):
        hover = f"{plotly_text(words['query'])}: %{{text}}<br>%{{y:.4~g}}"
        more = {"customdata": token_data(T)}
        plots[key] = [line(words[key], x, values, color, hover=hover, text=names, more=more)]
    y = {key: axis(words[f"{key}_axis"], {"rangemode": "tozero"}) for key in plots}
    meta = {"places": True}
    return stacked(plots, token_axis(words["query"], pieces), y, height=420, legend=LEGEND, meta=meta)


def losses_figure(each: ApproximationLine, before: float | None, uniform: float, words: Mapping[str, str]) -> go.Figure:
    """Draw the model's loss (or KL) as a function of size, with guides at softmax (`before`) and uniform attention.

    `words`: "size", "value", "softmax", "uniform".
    """
    sizes, color = [size for size in each.sizes if size], COLORS[each.key]
    ends = [sizes[0], sizes[-1]] if sizes else [1, 2]
    hover = f"{plotly_text(words['size'])} %{{x:,}}: %{{y:.4f}}"
    traces = [guide(words["uniform"], ends, [uniform] * 2, dash="dash")]
    if before is not None:
        traces.append(guide(words["softmax"], ends, [before] * 2))
    if not sizes:
        traces.append(line(each.name, ends, [each.values[0, 0]] * 2, color, hover="%{y:.4f}", more={"mode": "lines"}))
        x = axis("", {"showticklabels": False})
    else:
        traces += runs(each.name, sizes, each.values, color, hover=hover)
        x = _size_axis(words["size"], sizes)
    return figure(traces, x, axis(words["value"]), height=380)
