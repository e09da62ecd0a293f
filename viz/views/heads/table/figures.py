"""Pictures of what heads do: all of them in numbers, one metric against another, and which heads work together."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz.labels import plotly_text
from viz.theme import HUES, RAMPS, colorscale, frame, scales

Head = tuple[int, int]  # layer, head
KINDS = ("q", "k", "v")
_BETWEEN = 48  # pixels between two maps, for the name of the lower one


@dataclass(frozen=True)
class Metric:
    """A column of the table and an axis of the plot."""

    key: str
    label: str
    help: str
    unit: str  # as it stands on an axis
    kind: str  # "share" 0 to 1, "size" 0 and up, "signed" -1 to 1
    missing: str = ""  # why there may be no number


@dataclass(frozen=True, eq=False)
class Measured:
    """Numbers of every head. The frames are indexed (layer, head) and have a column a metric, by its key."""

    values: pd.DataFrame
    spread: pd.DataFrame | None  # standard deviation between sequences; None for one prompt
    names: Mapping[Head, Sequence[tuple[str, float, float]]] | None
    # What heads are called: (name, score, baseline), the strongest first; None before that was measured.


@dataclass(frozen=True, eq=False)
class Colour:
    """What the colour of a point says: a number of each head, or which of its names is the first."""

    label: str
    values: np.ndarray | None = None  # [N], in the order of the heads
    signed: bool = False
    names: tuple[tuple[str, str], ...] = ()  # (name, its text), one hue each
    nameless: str = ""


@dataclass(frozen=True, eq=False)
class Wiring:
    """How strongly one head is wired to the others, by "q", "k", "v". NaN where two heads cannot be wired."""

    head: Head
    reads: Mapping[str, np.ndarray]  # [L, H], of earlier heads
    feeds: Mapping[str, np.ndarray]  # [L, H], of later heads
    baseline: float
    baseline_sd: float

    def scores(self, kind: str) -> np.ndarray:
        """Those of earlier and of later heads in one map. [L, H], NaN at the head's own layer."""
        return np.where(np.isnan(self.reads[kind]), self.feeds[kind], self.reads[kind]).astype(np.float64)


def packed(values: np.ndarray) -> dict:
    """An array as the page reads it, with every digit."""
    whole = np.ascontiguousarray(values, dtype="<f4" if values.dtype == np.float32 else "<f8")
    shape = ", ".join(str(n) for n in whole.shape)
    return {"bdata": base64.b64encode(whole.tobytes()).decode(), "dtype": whole.dtype.str[1:], "shape": shape}


def head_table(measured: Measured, metrics: Sequence[Metric]) -> dict:
    """All heads for the page's table: the numbers of `metrics`, their spread, and what heads are called."""
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
    """What heads are called, the strongest name first. `labels`: label, score and baseline by (layer, head)."""
    names: dict[Head, list[tuple[str, float, float]]] = {}
    for (layer, head), row in labels.sort_values("score", ascending=False, kind="stable").iterrows():
        entry = (row["label"], float(row["score"]), float(row["baseline"]))
        names.setdefault((int(layer), int(head)), []).append(entry)
    return names


# --- one metric against another --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plane:
    """Heads as points: which numbers lie across and up, and what their colour says."""

    measured: Measured
    x: Metric
    y: Metric
    colour: Colour
    named: str  # a template such as "head {layer}.{head}"

    def places(self, heads: pd.MultiIndex) -> pd.DataFrame:
        """Those of the heads that have both numbers."""
        found = self.measured.values.loc[heads, [self.x.key, self.y.key]].dropna()
        found.columns = ["x", "y"]
        return found


def scatter_figure(plane: Plane, picked: Sequence[Head]) -> go.Figure:
    """A point a head that has both numbers; picked heads are ringed and, over a probe set, have bars of +- 1 sd."""
    figure, colour = go.Figure(), plane.colour
    heads = plane.measured.values.index
    if colour.values is not None:
        figure.add_trace(_points(plane, heads))
        figure.update_layout(coloraxis=_point_scale(colour))
    else:
        _add_names(figure, plane)
    figure.add_trace(_rings(plane, picked))
    found = scales("signed", "linear") if colour.signed else _visible_scales()
    frame(figure, meta={"scales": found, "height": 500, "narrow": 400})
    for update, metric in ((figure.update_xaxes, plane.x), (figure.update_yaxes, plane.y)):
        signed = metric.kind == "signed"
        title = {"text": plotly_text(f"{metric.label} ({metric.unit})"), "standoff": 8}
        update(title=title, automargin=True, zeroline=signed, zerolinecolor="rgba(128,128,128,0.5)")
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(showlegend=colour.values is None, legend=legend, hovermode="closest")


def _points(plane: Plane, heads: pd.MultiIndex) -> go.Scatter:
    """Some heads as one trace."""
    found, values = plane.places(heads), plane.colour.values
    index = [(int(layer), int(head)) for layer, head in found.index]
    marker = {"size": 9, "opacity": 0.9, "line": {"width": 0.6, "color": "rgba(128,128,128,0.9)"}}
    if values is not None:
        marker |= {"color": values[plane.measured.values.index.get_indexer(found.index)], "coloraxis": "coloraxis"}
    return go.Scatter(
        x=found["x"].to_numpy(float),
        y=found["y"].to_numpy(float),
        mode="markers",
        marker=marker,
        text=[plotly_text(plane.named.format(layer=layer, head=head)) for layer, head in index],
        customdata=[{"head": list(head)} for head in index],
        hovertext=[_told(plane, head) for head in index],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _told(plane: Plane, head: Head) -> str:
    """What is said of a point: the head, both numbers with their spread, its names or the number of its colour."""
    measured, colour = plane.measured, plane.colour
    lines = [plane.named.format(layer=head[0], head=head[1])]
    for metric in dict.fromkeys((plane.x, plane.y)):
        spread = math.nan if measured.spread is None else measured.spread.at[head, metric.key]
        near = "" if math.isnan(spread) else f" ± {spread:.4f}"
        lines.append(f"{metric.label}: {measured.values.at[head, metric.key]:.4f}{near}")
    if colour.values is None:
        texts, names = dict(colour.names), (measured.names or {}).get(head, ())
        lines += [f"{texts[name]}: {score:.2f}" for name, score, _ in names] or [colour.nameless]
    else:
        value = float(colour.values[measured.values.index.get_loc(head)])
        lines.append(f"{colour.label}: {value:.4g}" if math.isfinite(value) else f"{colour.label}: –")
    return "<br>".join(plotly_text(line) for line in lines)


def _add_names(figure: go.Figure, plane: Plane) -> None:
    """One trace a name, that which is the head's strongest; the nameless heads first and so below the others."""
    colour, heads = plane.colour, plane.measured.values.index
    first = np.array([_first_name(plane.measured, head) for head in heads])
    named = [(name, text, HUES[n % len(HUES)]) for n, (name, text) in enumerate(colour.names)]
    for name, text, hue in [("", colour.nameless, HUES[-1]), *named]:
        trace = _points(plane, heads[first == name])
        if len(trace.x):
            marker = {"color": hue, "symbol": "circle" if name else "circle-open"}
            figure.add_trace(trace.update(name=plotly_text(text), marker=marker))


def _first_name(measured: Measured, head: Head) -> str:
    names = (measured.names or {}).get(head, ())
    return names[0][0] if names else ""


def _rings(plane: Plane, picked: Sequence[Head]) -> go.Scatter:
    """A ring in each picked head's hue, its number, and bars of one standard deviation where there is one."""
    order = {head: n for n, head in enumerate(picked)}
    found = plane.places(pd.MultiIndex.from_tuples(order, names=["layer", "head"]))
    ring = go.Scatter(
        x=found["x"].to_numpy(float),
        y=found["y"].to_numpy(float),
        mode="markers+text",
        hoverinfo="skip",
        text=[f"{layer}.{head}" for layer, head in found.index],
        textposition="top center",
        cliponaxis=False,
        marker={
            "symbol": "circle-open",
            "size": 17,
            "line": {"width": 2.5},
            "color": [HUES[order[head] % len(HUES)] for head in found.index],
        },
        showlegend=False,
    )
    spread = plane.measured.spread
    if spread is not None and len(found):
        look = {"thickness": 1, "width": 3, "color": "rgba(128,128,128,0.9)"}
        x, y = (spread.loc[found.index, metric.key].fillna(0).to_numpy(float) for metric in (plane.x, plane.y))
        ring.update(error_x={"array": x, **look}, error_y={"array": y, **look})
    return ring


def _visible_scales() -> dict[str, list[list]]:
    """The ramp without the end that is the page's own colour: a point of value 0 must be seen."""
    return {name: colorscale(stops[2:], "linear") for name, stops in RAMPS.items()}


def _point_scale(colour: Colour) -> dict:
    """The colour axis of points that are coloured by a number."""
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": plotly_text(colour.label), "side": "right"}}
    found = scales("signed", "linear") if colour.signed else _visible_scales()
    axis = {"colorscale": found["light"], "colorbar": bar}
    return axis | ({"cmin": -1, "cmax": 1} if colour.signed else {})


# --- which heads work together ---------------------------------------------------------------------


def composition_figure(wiring: Wiring, words: Mapping[str, str], across: bool) -> go.Figure:
    """Three maps of layers and heads on one signed ramp: how far above random heads of these shapes each one is wired.

    `across` puts the maps side by side, else below one another; only the layouts of the two differ.
    `words`: composed_q, reads_q, feeds_q and so on for k and v, score, random, layer, head, above.
    """
    (L, H), names = wiring.reads["q"].shape, [plotly_text(words[f"composed_{kind}"]) for kind in KINDS]
    low, each = (200, 22) if across else (84, 14)  # pixels of a map, and of a head in it
    rows = min(max(H * each, low), 300)
    height = rows + 100 if across else 3 * rows + 2 * _BETWEEN + 90
    shape = {"horizontal_spacing": 0.05} if across else {"vertical_spacing": _BETWEEN / (height - 90)}
    figure = make_subplots(*((1, 3) if across else (3, 1)), subplot_titles=names, **shape)
    above = {kind: (wiring.scores(kind) - wiring.baseline).T for kind in KINDS}  # [H, L]
    for n, kind in enumerate(KINDS):
        heat = go.Heatmap(
            z=above[kind],
            x=list(range(L)),
            y=list(range(H)),
            name=names[n],
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=1,
            ygap=1,
            hovertext=_wired(wiring, kind, words),
            hovertemplate="%{hovertext}<extra></extra>",
        )
        figure.add_trace(heat, row=1 if across else n + 1, col=n + 1 if across else 1)
    found = scales("signed", "linear")
    frame(figure, meta={"scales": found, "heads": True, "height": height, "narrow": height})
    for update, count, name in ((figure.update_xaxes, L, "layer"), (figure.update_yaxes, H, "head")):
        update(
            showgrid=False,
            zeroline=False,
            dtick=max(1, count // (12 if name == "layer" else 6)),
            tick0=0,
            automargin=True,
            title={"text": plotly_text(words[name]), "standoff": 6},
        )
    figure.update_yaxes(autorange="reversed")
    if across:  # the name of the axis once
        figure.update_yaxes(title=None, col=2).update_yaxes(title=None, col=3)
    else:
        figure.update_xaxes(title=None, row=1).update_xaxes(title=None, row=2)
    top = max((float(np.nanmax(np.abs(z))) for z in above.values() if np.isfinite(z).any()), default=0) or 1.0
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": plotly_text(words["above"]), "side": "right"}}
    axis = {"colorscale": found["light"], "cmin": -top, "cmax": top, "colorbar": bar}
    return figure.update_annotations(font_size=12).update_layout(coloraxis=axis, showlegend=False, margin={"t": 26})


def _wired(wiring: Wiring, kind: str, words: Mapping[str, str]) -> list[list[str]]:
    """What is said of each cell: who reads whom, the score, and what random heads score. [H][L]"""
    scores, (layer, head) = wiring.scores(kind), wiring.head
    random = words["random"].format(mean=f"{wiring.baseline:.4f}", sd=f"{wiring.baseline_sd:.4f}")
    told = []
    for h in range(scores.shape[1]):
        row = []
        for at in range(scores.shape[0]):
            side = "reads" if at < layer else "feeds"
            who = words[f"{side}_{kind}"].format(this=f"{layer}.{head}", other=f"{at}.{h}")
            score = words["score"].format(score=f"{scores[at, h]:.4f}")
            row.append("<br>".join(plotly_text(line) for line in (who, score, random)))
        told.append(row)
    return told
