"""Scores and weights of heads against the distance from query to key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout, scales
from viz.views.attention.cell.figures import number

HEIGHT, NARROW = 400, 380
GREY = "rgba(128,134,150,0.9)"
FLOOR = 1e-6  # the least mean weight that the axis shows at first
ZERO = 0.5  # where distance 0 stands on a logarithmic axis
_ROW, _ROOM = 24, 90  # pixels a head of the map, and around it

Buckets = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Curves:
    """One head. All [K], NaN where there is nothing; `alone` and `sink` may be absent."""

    head: tuple[int, int]
    name: str
    pairs: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    alone: np.ndarray | None = None  # what positions alone give
    sink: np.ndarray | None = None  # score of token 0


def uniform_weight(T: int, buckets: Buckets, first: bool) -> np.ndarray:
    """Mean weight at each distance if every token read all up to itself alike: the mean of 1 / (i + 1). [K]"""
    below = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, T + 1))])  # sums of 1 / (i + 1) over the first i
    skip = 0 if first else 1
    starts = np.minimum(np.arange(T) + skip, T)  # queries start at the distance, or one behind it
    total, count = below[T] - below[starts], T - starts
    found = [(total[a : b + 1].sum(), count[a : b + 1].sum()) for a, b in buckets]
    return np.array([each / n if n else np.nan for each, n in found])


def over_buckets(values: np.ndarray, buckets: Buckets) -> np.ndarray:
    """The mean of one number a distance over each bucket, NaN left out. [T] -> [K]"""
    kept = [part[~np.isnan(part)] for part in (values[a : b + 1] for a, b in buckets)]
    return np.array([part.mean() if len(part) else np.nan for part in kept])


def label(bucket: tuple[int, int]) -> str:
    """A bucket of distances as text."""
    return str(bucket[0]) if bucket[0] == bucket[1] else f"{bucket[0]}–{bucket[1]}"


def scores_figure(curves: Sequence[Curves], buckets: Buckets, said: Mapping[str, str], *, log: bool) -> str:
    """Median and band of the scores by distance, what positions alone give, and the score of the first token; JSON.

    `said`: "distance", "score", "tokens", "pairs", "median", "band", "alone", "sink".
    """
    traces = []
    for n, each in enumerate(curves):
        hue = HUES[n % len(HUES)]
        traces += [_band(each, buckets, hue, log)]
        hovers = [
            f"{label(at)} {said['tokens']}<br>{said['median']} {median:.3f} ({low:.3f} … {high:.3f})<br>"
            f"{said['pairs'].format(n=f'{pairs:,}')}"
            for at, median, low, high, pairs in zip(buckets, each.median, each.low, each.high, each.pairs, strict=True)
        ]
        median = f"{each.name}, {said['median']}"
        traces.append(_line(each.median, buckets, median, hovers, log) | {"line": {"color": hue, "width": 2.5}})
        for values, name, dash in ((each.alone, said["alone"], "dash"), (each.sink, said["sink"], "dot")):
            if values is None:
                continue
            hovers = [
                f"{label(at)} {said['tokens']}<br>{name} {value:.3f}" for at, value in zip(buckets, values, strict=True)
            ]
            found = _line(values, buckets, f"{each.name}, {name}", hovers, log)
            traces.append(found | {"line": {"color": hue, "width": 1.75, "dash": dash}, "mode": "lines"})
    return _figure(traces, said, said["score"], buckets, log)


def weights_figure(
    curves: Sequence[Curves], uniform: np.ndarray, buckets: Buckets, said: Mapping[str, str], *, log: bool
) -> str:
    """Mean attention weight by distance, beside reading all tokens alike; JSON.

    `said`: "distance", "weight", "tokens", "pairs", "uniform".
    """
    traces = []
    for n, each in enumerate(curves):
        hue = HUES[n % len(HUES)]
        hovers = [
            f"{label(at)} {said['tokens']}<br>{weight:.3g}" for at, weight in zip(buckets, each.weight, strict=True)
        ]
        traces.append(_line(each.weight, buckets, each.name, hovers, log) | {"line": {"color": hue, "width": 2.5}})
    hovers = [f"{label(at)} {said['tokens']}<br>{value:.3g}" for at, value in zip(buckets, uniform, strict=True)]
    even = _line(uniform, buckets, said["uniform"], hovers, log)
    traces.append(even | {"line": {"color": GREY, "width": 1.75, "dash": "dash"}, "mode": "lines"})
    for trace in traces:  # a logarithm has no 0
        trace["y"] = [value if value is not None and value > 0 else None for value in trace["y"]]
    shown = [value for trace in traces for value in trace["y"] if value]
    low, high = max(min(shown, default=FLOOR), FLOOR), max(shown, default=1.0)
    reach = [float(np.log10(low)) - 0.1, float(np.log10(max(high, low))) + 0.1]
    more = {"type": "log", "exponentformat": "power", "range": reach} | ({"dtick": 1} if np.ptp(reach) > 1.5 else {})
    return _figure(traces, said, said["weight"], buckets, log, more)


def layer_figure(weights: np.ndarray, layer: int, buckets: Buckets, said: Mapping[str, str]) -> str:
    """Every head of a layer against distance, a cell's colour its mean weight; a click picks the head; JSON.

    weights [H, K]. `said`: "distance", "head", "weight", "tokens".
    """
    H, K = weights.shape
    names = [label(at) for at in buckets]
    heat = {
        "type": "heatmap",
        "z": [[number(value) for value in row] for row in weights],
        "x": names,
        "y": [f"{layer}.{head}" for head in range(H)],
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "customdata": [[{"head": [layer, head]}] * K for head in range(H)],
        "hovertemplate": f"{plotly_text(said['head'])} %{{y}}<br>%{{x}} {plotly_text(said['tokens'])}: %{{z:.3g}}"
        "<extra></extra>",
    }
    found, height = scales("share", "sqrt"), min(max(_ROOM + _ROW * H, 200), 640)
    top = float(np.nanmax(weights)) if np.isfinite(weights).any() else 1.0
    bar = {
        "thickness": 10,
        "len": 1,
        "outlinewidth": 0,
        "tickformat": ".2~g",
        "title": {"text": plotly_text(said["weight"]), "side": "right"},
    }
    shown = list(range(0, K, max(1, -(-K // 12))))
    axis = {"showgrid": False, "zeroline": False, "automargin": True, "type": "category"}
    layout = frame_layout({"scales": found, "height": height, "narrow": height}) | {
        "coloraxis": {"colorscale": found["light"], "cmin": 0, "cmax": top or 1.0, "colorbar": bar},
        "xaxis": axis
        | {
            "title": {"text": plotly_text(said["distance"]), "standoff": 8},
            "tickmode": "array",
            "tickvals": [names[n] for n in shown],
            "tickangle": 0,
        },
        "yaxis": axis | {"title": {"text": plotly_text(said["head"]), "standoff": 8}, "autorange": "reversed"},
    }
    return go.Figure({"data": [heat], "layout": layout}).to_json()


# --- pieces -----------------------------------------------------------------------------------------


def _places(buckets: Buckets, log: bool) -> list[float]:
    """Where buckets stand: the middle of their distances, on a logarithmic axis the geometric one."""
    if not log:
        return [(a + b) / 2 for a, b in buckets]
    return [float(np.sqrt(a * b)) if a else ZERO for a, b in buckets]


def _line(values: np.ndarray, buckets: Buckets, name: str, hovers: Sequence[str], log: bool) -> dict:
    return {
        "type": "scatter",
        "x": _places(buckets, log),
        "y": [number(value) for value in values],
        "name": plotly_text(name),
        "text": [label(at) for at in buckets],
        "mode": "lines+markers" if len(buckets) <= 80 else "lines",
        "marker": {"size": 5},
        "hovertext": [f"{plotly_text(name)}<br>{hover}" for hover in hovers],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _defined(trace: dict) -> dict:
    """A line without the points that have no value."""
    kept = [n for n, value in enumerate(trace["y"]) if value is not None]
    return trace | {key: [trace[key][n] for n in kept] for key in ("x", "y", "text", "hovertext") if key in trace}


def _band(each: Curves, buckets: Buckets, hue: str, log: bool) -> dict:
    """From the 10th to the 90th percentile."""
    there = np.isfinite(each.low)
    x = np.array(_places(buckets, log))[there].tolist()
    low, high = each.low[there].tolist(), each.high[there].tolist()
    red, green, blue = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    return {
        "type": "scatter",
        "x": x + x[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"rgba({red},{green},{blue},0.16)",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _figure(
    traces: list[dict], said: Mapping[str, str], y: str, buckets: Buckets, log: bool, more: Mapping | None = None
) -> str:
    """`more` of the axis of the values."""
    last = buckets[-1][1]
    axis = {"automargin": True, "zeroline": False}
    across = {"title": {"text": plotly_text(said["distance"]), "standoff": 8}, "tickformat": ","}
    if log:
        ticks = [0, *(2**n for n in range(12) if 2**n <= last)]
        across |= {
            "type": "log",
            "tickmode": "array",
            "tickvals": [each or ZERO for each in ticks],
            "ticktext": [f"{each:,}" for each in ticks],
            "range": [float(np.log10(0.4)), float(np.log10(max(1.2 * last, 1.2)))],
        }
    layout = frame_layout({"height": HEIGHT, "narrow": NARROW}) | {
        "xaxis": axis | across,
        "yaxis": axis | {"title": {"text": plotly_text(y), "standoff": 8}} | (more or {}),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure({"data": [_defined(trace) for trace in traces], "layout": layout}).to_json()
