"""Figures of many generated texts per strategy: the distribution of a metric, and the entropy at each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import LOG, axis, figure
from viz.charts.lines import band, line
from viz.charts.shades import wide
from viz.labels import plotly_text, shorten, visible
from viz.numbers import BIT
from viz.theme import HUES

# The fields of text_statistics.TextStatistics on the page, with their decimal places. Entropy is in bits.
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
BEGINNING = 60  # maximum number of a text's characters shown on hover
ROW = 54  # height of a strategy's row in pixels


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and quartiles of a metric over a strategy's texts; all None if no value is finite."""

    mean: float | None
    sd: float | None  # sample standard deviation, with the divisor n - 1; None for a single text
    low: float | None  # lower quartile
    median: float | None
    high: float | None  # upper quartile


def spread(values: Sequence[float]) -> Spread:
    """Compute the mean, standard deviation and quartiles of the finite values."""
    finite = np.array([value for value in values if np.isfinite(value)], np.float64)
    if not len(finite):
        return Spread(None, None, None, None, None)
    low, median, high = np.percentile(finite, [25, 50, 75])
    sd = float(finite.std(ddof=1)) if len(finite) > 1 else None
    return Spread(float(finite.mean()), sd, float(low), float(median), float(high))


def shown(key: str, value: float) -> float:
    """Convert a text's metric to the page's unit: entropy from nats to bits."""
    return value / BIT if key == "entropy" else value


def quartile_band(entropies: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """Compute the mean and quartiles at each step over the texts that reach it, and the number of those texts.

    `entropies`: one array per text, one entry per step. [n_i] each
    """
    steps = max((len(each) for each in entropies), default=0)
    columns: dict[str, list[float]] = {"mean": [], "low": [], "high": [], "count": []}
    for step in range(steps):
        reached = np.array([each[step] for each in entropies if step < len(each)], np.float64)
        low, high = np.percentile(reached, [25, 75])
        for name, value in (("mean", reached.mean()), ("low", low), ("high", high), ("count", len(reached))):
            columns[name].append(float(value))
    return columns


def measure_figure(
    names: Sequence[str], values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]], label: str
) -> go.Figure:
    """Draw one dot per text in one row per strategy, over a box plot; a click on a dot selects its text.

    names [S]; values and texts [S][n_s]: one entry per text of each strategy. Values that span several orders of
    magnitude, as perplexities may, get a logarithmic axis, because an outlier on a linear axis compresses all other
    dots.
    """
    flat = np.array([value for each in values for value in each], np.float64)
    x = axis(label, LOG | {"nticks": 6} if wide(flat) and np.nanmin(flat) > 0 else {})
    title, traces, first = plotly_text(label), [], 0
    for index, (name, row, row_texts) in enumerate(zip(names, values, texts, strict=True)):
        points = [(value, text, first + n) for n, (value, text) in enumerate(zip(row, row_texts, strict=True))]
        points = [each for each in points if np.isfinite(each[0])]
        first += len(row)
        traces.append(_box(plotly_text(name), points, HUES[index % len(HUES)], title))
    rows = [plotly_text(name) for name in names]
    y = {
        "type": "category",
        "autorange": "reversed",
        "categoryorder": "array",
        "categoryarray": rows,
        "tickvals": rows,
        "ticktext": [plotly_text(shorten(visible(name), 18)) for name in names],
    }
    height = ROW * len(names) + 70
    return figure(traces, x, axis("", y), height=height, more={"showlegend": False})


def _box(name: str, points: Sequence[tuple[float, str, int]], hue: str, title: str) -> go.Box:
    """Draw the box and dots of one strategy. `points`: (value, text, index among all texts) of each of its texts."""
    return go.Box(
        orientation="h",
        x=[float(value) for value, _, _ in points],
        y=[name] * len(points),
        text=[beginning(text) for _, text, _ in points],
        customdata=[{"part": n} for _, _, n in points],
        boxpoints="all",
        jitter=0.7,
        pointpos=0,
        boxmean=len(points) > 1,
        hoveron="points",
        whiskerwidth=0,
        width=0.6,
        marker={"color": hue, "size": 6, "opacity": 0.75},
        line={"color": hue, "width": 1.5},
        fillcolor=f"rgba({','.join(str(int(hue[i : i + 2], 16)) for i in (1, 3, 5))},0.16)",
        hovertemplate=f"<b>{name}</b><br>{title}: %{{x:.4g}}<br>%{{text}}<extra></extra>",
    )


def entropy_figure(
    names: Sequence[str], bands: Sequence[Mapping[str, list[float]]], words: Mapping[str, str]
) -> go.Figure:
    """Draw the mean entropy at each step, one line per strategy, with the interquartile range shaded if there are
    several texts.

    `bands`: results of `quartile_band`, with entropies in bits. `words`: "step", "entropy", "of_texts".
    """
    shades, lines = [], []
    for index, (name, quartiles) in enumerate(zip(names, bands, strict=True)):
        hue, steps = HUES[index % len(HUES)], list(range(1, len(quartiles["mean"]) + 1))
        label = shorten(visible(name), 30)
        several = max(quartiles["count"], default=1) > 1  # without several texts there is no mean: draw a thin line
        if several:
            shades += band(label, steps, quartiles["low"], quartiles["high"], hue)
        hover = f"{plotly_text(words['step'])} %{{x}}: %{{y:.3f}} ({plotly_text(words['of_texts'])}: %{{customdata.n}})"
        more = {
            "mode": "lines",
            "legendgroup": plotly_text(label),
            "customdata": [{"n": int(n)} for n in quartiles["count"]],
        }
        dash, width = ("solid", 2) if several else ("dot", 1)
        lines.append(line(label, steps, quartiles["mean"], hue, hover=hover, dash=dash, width=width, more=more))
    x, y = axis(words["step"], {"tickformat": "d"}), axis(words["entropy"], {"rangemode": "tozero"})
    return figure([*shades, *lines], x, y, height=340)


def beginning(text: str) -> str:
    """Format the beginning of a text as one line, escaped for Plotly."""
    return plotly_text(shorten(visible(text), BEGINNING))
