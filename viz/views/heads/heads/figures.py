"""Figures of all heads: the table of metrics, one metric against another, and the composition scores between heads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz.charts.axes import ZERO, axis, count_axis, figure, layer_axis
from viz.charts.packed import packed
from viz.labels import plotly_text
from viz.numbers import exact, number
from viz.theme import HUES, RAMPS, colorscale, frame, scales

Head = tuple[int, int]  # (layer, head)
KINDS = ("q", "k", "v")
_BETWEEN = 48  # pixels between two stacked maps, including the title of the lower one


@dataclass(frozen=True)
class Metric:
    """A metric of heads: a column of the table and an axis of the plot."""

    key: str
    label: str
    help: str
    unit: str  # as shown on an axis
    kind: str  # "share": 0 to 1; "size": nonnegative; "signed": -1 to 1
    missing: str = ""  # why the metric may be undefined for some heads


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """Metrics of every head. The frames are indexed by (layer, head), with one column per metric, named by its key."""

    values: pd.DataFrame
    spread: pd.DataFrame | None  # standard deviation over sequences; None for a single prompt
    names: Mapping[Head, Sequence[tuple[str, float, float]]] | None
    # For each named head, its (name, score, baseline) triples by decreasing score; None before the survey.


@dataclass(frozen=True, eq=False)
class Color:
    """The color of points: a number per head, or the name with each head's highest score."""

    label: str
    values: np.ndarray | None = None  # [N], in the order of the heads' index
    signed: bool = False
    names: tuple[tuple[str, str], ...] = ()  # (key, displayed name) pairs, one hue each
    nameless: str = ""


@dataclass(frozen=True, eq=False)
class Wiring:
    """The composition scores between one head and the others, by `q`, `k`, `v`. NaN for heads that cannot compose."""

    head: Head
    reads: Mapping[str, np.ndarray]  # [L, H], scores of earlier heads, whose output it reads
    feeds: Mapping[str, np.ndarray]  # [L, H], scores of later heads, which read its output
    baseline: float
    baseline_sd: float

    def scores(self, kind: str) -> np.ndarray:
        """Combine the scores of earlier and of later heads in one map. [L, H], NaN at the head's own layer"""
        return np.where(np.isnan(self.reads[kind]), self.feeds[kind], self.reads[kind]).astype(np.float64)


def head_table(measured: HeadNumbers, metrics: Sequence[Metric]) -> dict:
    """Build the page's table of all heads: the given metrics, their spread, and the heads' names."""
    keys = [metric.key for metric in metrics]
    index, names = measured.values.index, measured.names
    return {
        "index": [[int(layer), int(head)] for layer, head in index],
        "columns": [vars(metric) for metric in metrics],
        "values": packed(measured.values[keys].to_numpy()),
        "spread": None if measured.spread is None else packed(measured.spread[keys].to_numpy()),
        "names": None if names is None else [[list(name) for name in names.get(head, ())] for head in index],
    }


def named(labels: pd.DataFrame) -> dict[Head, list[tuple[str, float, float]]]:
    """Collect the names of each head by decreasing score.

    `labels` is indexed by (layer, head) and has the columns label, score and baseline.
    """
    names: dict[Head, list[tuple[str, float, float]]] = {}
    for (layer, head), row in labels.sort_values("score", ascending=False, kind="stable").iterrows():
        entry = (row["label"], float(row["score"]), float(row["baseline"]))
        names.setdefault((int(layer), int(head)), []).append(entry)
    return names


# --- one metric against another --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plane:
    """A scatter plot of heads: the metrics on the two axes, and the meaning of the color."""

    measured: HeadNumbers
    x: Metric
    y: Metric
    color: Color
    named: str  # a template such as "head {layer}.{head}"

    def places(self, heads: pd.MultiIndex) -> pd.DataFrame:
        """Return `x` and `y` of the given heads, without those that lack one of the two metrics."""
        places = self.measured.values.loc[heads, [self.x.key, self.y.key]].dropna()
        places.columns = ["x", "y"]
        return places


def scatter_figure(plane: Plane, picked: Sequence[Head]) -> go.Figure:
    """Draw one point per head that has both metrics, with a ring around each selected head.

    If the metrics are means over a probe set, the rings have error bars of one standard deviation.
    """
    color = plane.color
    ramps = scales("signed", "linear") if color.signed else _visible_scales()
    more = {"showlegend": color.values is None, "hovermode": "closest"}
    if color.values is None:
        points = _by_name(plane)
    else:
        points = [_points(plane, plane.measured.values.index)]
        more["coloraxis"] = _point_scale(color)
    return figure(
        [*points, _rings(plane, picked)],
        _metric_axis(plane.x),
        _metric_axis(plane.y),
        height=500,
        narrow=400,
        meta={"scales": ramps},
        more=more,
    )


def _metric_axis(metric: Metric) -> dict:
    """Build an axis with the name and unit of a metric, with a zero line if the metric is signed."""
    signed = metric.kind == "signed"
    return axis(f"{metric.label} ({metric.unit})", ZERO if signed else None)


def _points(plane: Plane, heads: pd.MultiIndex) -> go.Scatter:
    """Draw the given heads as points, in one trace."""
    places, values = plane.places(heads), plane.color.values
    index = [(int(layer), int(head)) for layer, head in places.index]
    marker = {"size": 9, "opacity": 0.9, "line": {"width": 0.6, "color": "rgba(128,128,128,0.9)"}}
    if values is not None:
        marker |= {"color": values[plane.measured.values.index.get_indexer(places.index)], "coloraxis": "coloraxis"}
    return go.Scatter(
        x=places["x"].to_numpy(float),
        y=places["y"].to_numpy(float),
        mode="markers",
        marker=marker,
        text=[plotly_text(plane.named.format(layer=layer, head=head)) for layer, head in index],
        customdata=[{"head": list(head)} for head in index],
        hovertext=[_hover(plane, head) for head in index],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _hover(plane: Plane, head: Head) -> str:
    """Format a point's hover text: the head, both metrics with their spread, and its names or its color's value."""
    measured, color = plane.measured, plane.color
    lines = [plane.named.format(layer=head[0], head=head[1])]
    for metric in dict.fromkeys((plane.x, plane.y)):
        spread = math.nan if measured.spread is None else measured.spread.at[head, metric.key]
        error = "" if math.isnan(spread) else f" ± {number(spread)}"
        lines.append(f"{metric.label}: {exact(float(measured.values.at[head, metric.key]))}{error}")
    if color.values is None:
        texts, names = dict(color.names), (measured.names or {}).get(head, ())
        lines += [f"{texts[name]}: {number(score)}" for name, score, _ in names] or [color.nameless]
    else:
        lines.append(f"{color.label}: {exact(float(color.values[measured.values.index.get_loc(head)]))}")
    return "<br>".join(plotly_text(line) for line in lines)


def _by_name(plane: Plane) -> list[go.Scatter]:
    """Draw one trace per name, with the heads that score highest for it; heads without a name are drawn first."""
    color, heads = plane.color, plane.measured.values.index
    first = np.array([_first_name(plane.measured, head) for head in heads])
    named = [(name, text, HUES[n % len(HUES)]) for n, (name, text) in enumerate(color.names)]
    traces = []
    for name, text, hue in [("", color.nameless, HUES[-1]), *named]:
        trace = _points(plane, heads[first == name])
        if len(trace.x):
            marker = {"color": hue, "symbol": "circle" if name else "circle-open"}
            traces.append(trace.update(name=plotly_text(text), marker=marker))
    return traces


def _first_name(measured: HeadNumbers, head: Head) -> str:
    names = (measured.names or {}).get(head, ())
    return names[0][0] if names else ""


def _rings(plane: Plane, picked: Sequence[Head]) -> go.Scatter:
    """Draw a ring and a label in each selected head's hue, with error bars of one standard deviation if available."""
    order = {head: n for n, head in enumerate(picked)}
    places = plane.places(pd.MultiIndex.from_tuples(order, names=["layer", "head"]))
    ring = go.Scatter(
        x=places["x"].to_numpy(float),
        y=places["y"].to_numpy(float),
        mode="markers+text",
        hoverinfo="skip",
        text=[f"{layer}.{head}" for layer, head in places.index],
        textposition="top center",
        cliponaxis=False,
        marker={
            "symbol": "circle-open",
            "size": 17,
            "line": {"width": 2.5},
            "color": [HUES[order[head] % len(HUES)] for head in places.index],
        },
        showlegend=False,
    )
    spread = plane.measured.spread
    if spread is not None and len(places):
        look = {"thickness": 1, "width": 3, "color": "rgba(128,128,128,0.9)"}
        x, y = (spread.loc[places.index, metric.key].fillna(0).to_numpy(float) for metric in (plane.x, plane.y))
        ring.update(error_x={"array": x, **look}, error_y={"array": y, **look})
    return ring


def _visible_scales() -> dict[str, list[list]]:
    """Return the color ramps without the stops near the background color, so that points of value 0 are visible."""
    return {name: colorscale(stops[2:], "linear") for name, stops in RAMPS.items()}


def _point_scale(color: Color) -> dict:
    """Build the color axis of points that are colored by a number."""
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": plotly_text(color.label), "side": "right"}}
    return {"colorbar": bar} | ({"cmin": -1, "cmax": 1} if color.signed else {})


# --- composition scores between heads --------------------------------------------------------------


def composition_figure(wiring: Wiring, words: Mapping[str, str], across: bool) -> go.Figure:
    """Draw three maps of layers and heads on one signed color scale: each head's composition score minus the baseline.

    `across` places the maps side by side, otherwise one below another; the data are the same. Keys of `words`: `q`,
    `reads_q`, `feeds_q` and the same for `k` and `v`, `score`, `random`, `layer`, `head`, `above`.
    """
    (L, H), names = wiring.reads["q"].shape, [plotly_text(words[kind]) for kind in KINDS]
    low, each = (200, 22) if across else (84, 14)  # pixels: minimum height of a map, height of one layer
    rows = min(max(L * each, low), 420)
    height = rows + 100 if across else 3 * rows + 2 * _BETWEEN + 90
    shape = {"horizontal_spacing": 0.05} if across else {"vertical_spacing": _BETWEEN / (height - 90)}
    maps = make_subplots(*((1, 3) if across else (3, 1)), subplot_titles=names, **shape)
    above = {kind: wiring.scores(kind) - wiring.baseline for kind in KINDS}  # [L, H]
    for n, kind in enumerate(KINDS):
        heat = go.Heatmap(
            z=above[kind],
            x=list(range(H)),
            y=list(range(L)),
            name=names[n],
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=1,
            ygap=1,
            hovertext=_wired(wiring, kind, words),
            hovertemplate="%{hovertext}<extra></extra>",
        )
        maps.add_trace(heat, row=1 if across else n + 1, col=n + 1 if across else 1)
    frame(maps, meta={"scales": scales("signed", "linear"), "heads": True, "height": height, "narrow": height})
    maps.update_xaxes(count_axis(words["head"], H)).update_yaxes(layer_axis(words["layer"], L))
    if across:  # one title for all three axes
        maps.update_yaxes(title=None, col=2).update_yaxes(title=None, col=3)
    else:
        maps.update_xaxes(title=None, row=1).update_xaxes(title=None, row=2)
    top = max((float(np.nanmax(np.abs(z))) for z in above.values() if np.isfinite(z).any()), default=0) or 1.0
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": plotly_text(words["above"]), "side": "right"}}
    colors = {"cmin": -top, "cmax": top, "colorbar": bar}
    return maps.update_annotations(font_size=12).update_layout(coloraxis=colors, showlegend=False, margin={"t": 26})


def _wired(wiring: Wiring, kind: str, words: Mapping[str, str]) -> list[list[str]]:
    """Format the hover text of each cell: which head reads the other, its score, and that of random heads. [L][H]"""
    scores, (layer, head) = wiring.scores(kind), wiring.head
    random = words["random"].format(mean=number(wiring.baseline), sd=number(wiring.baseline_sd))
    texts = []
    for other_layer in range(scores.shape[0]):
        row = []
        for h in range(scores.shape[1]):
            side = "reads" if other_layer < layer else "feeds"
            reading = words[f"{side}_{kind}"].format(this=f"{layer}.{head}", other=f"{other_layer}.{h}")
            score = words["score"].format(score=exact(float(scores[other_layer, h])))
            row.append("<br>".join(plotly_text(line) for line in (reading, score, random)))
        texts.append(row)
    return texts
