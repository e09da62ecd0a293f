"""Many texts of several strategies: how a measure is spread over them, and entropy step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viz.labels import plotly_text, shorten, visible
from viz.theme import HUES, frame_layout

# Of model.texts.Measured, what the page shows, and how many digits behind the point.
MEASURES: dict[str, int] = {
    "perplexity": 2,
    "surprisal": 2,
    "entropy": 2,
    "probability": 3,
    "length": 0,
    "distinct_1": 3,
    "distinct_2": 3,
    "repeated_3": 3,
    "repeated_4": 3,
}
BEGINNING = 60  # characters of a text on hover
ROW = 54  # pixels of a strategy's box


@dataclass(frozen=True)
class Spread:
    """How a measure is distributed over a strategy's texts; None where it is not defined for any of them."""

    mean: float | None
    sd: float | None  # of the sample, n - 1 below; None for a single text
    low: float | None  # the quartiles
    median: float | None
    high: float | None


def spread(values: Sequence[float]) -> Spread:
    """Mean, standard deviation and quartiles of the values that are finite."""
    known = np.array([value for value in values if np.isfinite(value)], np.float64)
    if not len(known):
        return Spread(None, None, None, None, None)
    low, median, high = np.percentile(known, [25, 50, 75])
    sd = float(known.std(ddof=1)) if len(known) > 1 else None
    return Spread(float(known.mean()), sd, float(low), float(median), float(high))


def quartile_band(entropies: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """Mean and quartiles of each step over the texts that reach it, and how many these are. entropies: [n_i] each"""
    steps = max((len(each) for each in entropies), default=0)
    found: dict[str, list[float]] = {"mean": [], "low": [], "high": [], "count": []}
    for step in range(steps):
        here = np.array([each[step] for each in entropies if step < len(each)], np.float64)
        low, high = np.percentile(here, [25, 75])
        for name, value in (("mean", here.mean()), ("low", low), ("high", high), ("count", len(here))):
            found[name].append(float(value))
    return found


@dataclass(frozen=True)
class Named:
    """A measure in words."""

    label: str
    unit: str
    strategy: str  # the word above the strategies' names


def measure_figure(
    names: Sequence[str], values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]], said: Named
) -> dict:
    """Every text a dot, in a row for each strategy, with a box of the quartiles behind; a click tells which text.

    A Plotly figure as plain data, built at once: its objects would take a hundred times as long.
    """
    title = plotly_text(f"{said.label} ({said.unit})" if said.unit else said.label)
    traces, number = [], 0
    for at, (name, mine, written) in enumerate(zip(names, values, texts, strict=True)):
        known = [(value, text, number + n) for n, (value, text) in enumerate(zip(mine, written, strict=True))]
        known = [each for each in known if np.isfinite(each[0])]
        number += len(mine)
        hue = HUES[at % len(HUES)]
        traces.append(
            {
                "type": "box",
                "orientation": "h",
                "x": [float(value) for value, _, _ in known],
                "y": [plotly_text(name)] * len(known),
                "text": [beginning(text) for _, text, _ in known],
                "customdata": [{"part": n} for _, _, n in known],
                "boxpoints": "all",
                "jitter": 0.7,
                "pointpos": 0,
                "boxmean": len(known) > 1,
                "hoveron": "points",
                "whiskerwidth": 0,
                "width": 0.6,
                "marker": {"color": hue, "size": 6, "opacity": 0.75},
                "line": {"color": hue, "width": 1.5},
                "fillcolor": _faint(hue),
                "hovertemplate": f"<b>{plotly_text(name)}</b><br>{title}: %{{x:.4g}}<br>%{{text}}<extra></extra>",
            }
        )
    axis = {"automargin": True, "zeroline": False}
    height = ROW * len(names) + 70
    layout = frame_layout({"height": height, "narrow": height}) | {
        "showlegend": False,
        "xaxis": axis | {"title": {"text": title, "standoff": 8}},
        "yaxis": axis
        | {
            "type": "category",
            "autorange": "reversed",
            "categoryorder": "array",
            "categoryarray": [plotly_text(name) for name in names],
            "tickvals": [plotly_text(name) for name in names],
            "ticktext": [plotly_text(shorten(visible(name), 18)) for name in names],
        },
    }
    return {"data": traces, "layout": layout}


def entropy_figure(names: Sequence[str], bands: Sequence[Mapping[str, list[float]]], said: Mapping[str, str]) -> dict:
    """Mean entropy of each step, a line a strategy, its middle half shaded where there are several texts.

    `said`: "step", "entropy", "of_texts". A Plotly figure as plain data.
    """
    shades, lines = [], []
    for at, (name, band) in enumerate(zip(names, bands, strict=True)):
        hue, steps = HUES[at % len(HUES)], list(range(1, len(band["mean"]) + 1))
        label = plotly_text(shorten(visible(name), 30))
        several = max(band["count"], default=1) > 1  # a single text is no mean: a thin line
        if several:
            shades.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": [*steps, *steps[::-1]],
                    "y": [*band["high"], *band["low"][::-1]],
                    "fill": "toself",
                    "fillcolor": _faint(hue),
                    "line": {"width": 0},
                    "hoverinfo": "skip",
                    "legendgroup": str(at),
                    "showlegend": False,
                    "name": label,
                }
            )
        lines.append(
            {
                "type": "scatter",
                "x": steps,
                "y": band["mean"],
                "mode": "lines",
                "name": label,
                "legendgroup": str(at),
                "line": {"color": hue, "width": 2} if several else {"color": hue, "width": 1, "dash": "dot"},
                "customdata": [{"n": int(n)} for n in band["count"]],
                "hovertemplate": f"{label}<br>{plotly_text(said['step'])} %{{x}}: %{{y:.3f}} "
                f"({plotly_text(said['of_texts'])}: %{{customdata.n}})<extra></extra>",
            }
        )
    axis = {"automargin": True, "zeroline": False}
    layout = frame_layout({"height": 340, "narrow": 340}) | {
        "xaxis": axis | {"title": {"text": plotly_text(said["step"]), "standoff": 8}, "tickformat": "d"},
        "yaxis": axis | {"title": {"text": plotly_text(said["entropy"]), "standoff": 8}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return {"data": [*shades, *lines], "layout": layout}


def beginning(text: str) -> str:
    """The first words of a text, in one line, escaped for Plotly."""
    return plotly_text(shorten(visible(text), BEGINNING))


def _faint(hue: str) -> str:
    r, g, b = (int(hue[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({r},{g},{b},0.16)"
