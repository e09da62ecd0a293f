"""Attention computed in several ways as pictures: one row of the online softmax, and what each way costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import axis_name, plotly_text, tick_text
from viz.theme import HUES, frame_layout, scales
from viz.views.sampling.kv_cache.figures import told_bytes, told_ms

BLUE, ORANGE, GREEN, PINK, GREY = HUES[0], HUES[4], HUES[2], HUES[3], "rgba(128,134,150,0.9)"
COLOURS = {"naive": ORANGE, "rows": PINK, "chunked": BLUE, "fused": GREEN}
MOST_TICKS = 24


def steps_figure(scores: np.ndarray, steps: Sequence, pieces: Sequence[str], said: Mapping[str, str]) -> str:
    """Above, the scores of one query and the running maximum; below, its weights after every block of keys; JSON.

    `steps` are those of model.kernels.online_steps. `said`: "key", "score", "maximum", "weight", "after", "whole".
    """
    n = len(scores)
    tokens = [axis_name(i, pieces[i]) for i in range(n)]
    custom = [{"tokens": [i]} for i in range(n)]
    key, score, weight = (plotly_text(said[name]) for name in ("key", "score", "weight"))
    shade = [HUES[(5, 0)[at % 2]] for at, step in enumerate(steps) for _ in range(step.start, step.end)]
    ends = [step.end - 0.5 for step in steps]
    top = [None if not np.isfinite(step.maximum) else float(step.maximum) for step in steps]
    rows = [said["after"].format(n=at + 1, start=step.start, end=step.end - 1) for at, step in enumerate(steps)]
    final = steps[-1].weights
    z = [[None if np.isnan(p) else float(f"{p:.6g}") for p in row] for row in (*(s.weights for s in steps), final)]
    traces = [
        go.Scatter(
            x=list(range(n)),
            y=[None if not np.isfinite(s) else float(f"{s:.6g}") for s in scores],
            name=score,
            mode="markers",
            text=tokens,
            customdata=custom,
            marker={"size": 8 if n <= 64 else 4, "color": shade},
            yaxis="y2",
            hovertemplate=f"{key}: %{{text}}<br>{score}: %{{y:.4f}}<extra></extra>",
        ),
        go.Scatter(
            x=[-0.5, *ends],
            y=[top[0], *top],
            name=plotly_text(said["maximum"]),
            mode="lines",
            yaxis="y2",
            line={"shape": "vh", "color": ORANGE, "width": 2.5},
            hovertemplate=f"{plotly_text(said['maximum'])}: %{{y:.4f}}<extra></extra>",
        ),
        go.Heatmap(
            x=list(range(n)),
            y=[*map(plotly_text, rows), plotly_text(said["whole"])],
            z=z,
            coloraxis="coloraxis",
            text=[tokens] * len(z),
            hoverongaps=False,
            xgap=1 if n <= 64 else 0,
            ygap=2,
            hovertemplate=f"%{{y}}<br>{key}: %{{text}}<br>{weight}: %{{z:.6f}}<extra></extra>",
        ),
    ]
    return go.Figure(traces, _steps_layout(n, len(z), pieces, said)).to_json()


def _steps_layout(n: int, rows: int, pieces: Sequence[str], said: Mapping[str, str]) -> dict:
    """Scores in a strip of fixed height above as many rows as there are."""
    ticks = list(range(0, n, -(-n // MOST_TICKS)))
    high, below, foot = 150, 24 * rows, 110
    split, found = below / (high + below + 24), scales("share", "sqrt")
    height = high + below + 24 + foot
    return frame_layout({"height": height, "narrow": height, "places": True, "scales": found}) | {
        "xaxis": {
            "title": _title(said["key"]),
            "tickvals": ticks,
            "ticktext": [tick_text(pieces[i]) for i in ticks],
            "tickangle": -60,
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "range": [-0.5, n - 0.5],
            "anchor": "y",
        },
        "yaxis": {
            "domain": [0, split],
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "type": "category",
            "tickfont": {"size": 10},
        },
        "yaxis2": {
            "domain": [1 - high / (high + below + 24), 1],
            "title": _title(said["score"]),
            "automargin": True,
            "zeroline": False,
            "anchor": "x",
        },
        "coloraxis": {
            "colorscale": found["light"],
            "cmin": 0,
            "cmax": 1,
            "colorbar": {
                "thickness": 10,
                "len": 1,
                "outlinewidth": 0,
                "tickvals": [0, 0.05, 0.25, 0.5, 1],
                "tickformat": ".3~g",
                "title": {"text": plotly_text(said["weight"]), "side": "right"},
            },
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }


# --- costs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One line against context: its numbers, and where they have a middle half, that too."""

    name: str
    colour: str
    lengths: Sequence[int]
    values: Sequence[float]
    spread: Sequence[tuple[float, float]] = ()
    dash: str = "solid"


def times_figure(curves: Sequence[Curve], said: Mapping[str, str]) -> str:
    """Seconds against context, both axes logarithmic, whiskers over the middle half; JSON.

    `said`: "context", "time", "tokens", "spread".
    """
    traces = []
    for curve in curves:
        name = plotly_text(curve.name)
        hovers = [
            f"{name}<br>{length:,} {plotly_text(said['tokens'])}: {told_ms(value)} ms<br>"
            f"{plotly_text(said['spread'])}: {told_ms(low)}–{told_ms(high)} ms"
            for length, value, (low, high) in zip(curve.lengths, curve.values, curve.spread, strict=True)
        ]
        error = {
            "type": "data",
            "symmetric": False,
            "thickness": 1.5,
            "width": 4,
            "color": curve.colour,
            "array": [1000 * (high - v) for v, (_, high) in zip(curve.values, curve.spread, strict=True)],
            "arrayminus": [1000 * (v - low) for v, (low, _) in zip(curve.values, curve.spread, strict=True)],
        }
        traces.append(_line(curve, [1000 * value for value in curve.values], hovers) | {"error_y": error})
    return _growth(traces, [length for curve in curves for length in curve.lengths], said["context"], said["time"])


def memory_figure(curves: Sequence[Curve], said: Mapping[str, str]) -> str:
    """Bytes against context, both axes logarithmic; JSON. `said`: "context", "memory", "tokens"."""
    traces = []
    for curve in curves:
        name = plotly_text(curve.name)
        hovers = [
            f"{name}<br>{length:,} {plotly_text(said['tokens'])}: {told_bytes(round(value))}"
            for length, value in zip(curve.lengths, curve.values, strict=True)
        ]
        traces.append(_line(curve, [value / 1e6 for value in curve.values], hovers))
    return _growth(traces, [length for curve in curves for length in curve.lengths], said["context"], said["memory"])


def _line(curve: Curve, y: Sequence[float], hovers: Sequence[str]) -> dict:
    solid = curve.dash == "solid"
    return {
        "type": "scatter",
        "x": list(curve.lengths),
        "y": list(y),
        "name": plotly_text(curve.name),
        "mode": "lines+markers" if solid else "lines",
        "line": {"color": curve.colour, "width": 2.5 if solid else 1.5, "dash": curve.dash},
        "marker": {"size": 8, "color": curve.colour},
        "hovertext": list(hovers),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _growth(traces: Sequence[dict], lengths: Sequence[int], x: str, y: str) -> str:
    """Powers of two across, powers of ten up."""
    layout = frame_layout({"height": 400, "narrow": 420}) | {
        "xaxis": {
            "type": "log",
            "title": _title(x),
            "tickvals": sorted(set(lengths)),
            "ticktext": [f"{n:,}" for n in sorted(set(lengths))],
            "automargin": True,
            "zeroline": False,
        },
        "yaxis": {
            "type": "log",
            "title": _title(y),
            "automargin": True,
            "zeroline": False,
            "dtick": 1,
            "tickformat": ",~g",
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(list(traces), layout).to_json()


def _title(text: str) -> dict:
    return {"text": plotly_text(text), "standoff": 8}


def dot_scores(row: np.ndarray, n: int) -> np.ndarray:
    """The first n scores of a row, -inf where a key is not seen. float32 [T] -> float64 [n]"""
    return np.where(np.isnan(row[:n]), -np.inf, row[:n]).astype(np.float64)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest |difference|; 0 where both are NaN."""
    return float(np.nanmax(np.abs(found - expected), initial=0.0))


def weights_at_once(scores: np.ndarray) -> np.ndarray:
    """The softmax of a whole row at once, float64; 0 everywhere for a row that sees no key. [n] -> [n]"""
    top = scores.max()
    powers = np.exp(scores - (top if np.isfinite(top) else 0.0))
    return powers / (powers.sum() or 1.0)
