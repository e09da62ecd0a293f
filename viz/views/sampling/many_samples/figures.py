"""Many texts of several strategies: how a measure is spread over them, and entropy step by step."""

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

# Of model.generation.text_statistics.Measured, what the page shows, and how many digits behind the point; entropy is
# shown in bits.
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


def shown(key: str, value: float) -> float:
    """Return a measure of a text as the page shows it: entropy, which is measured in nats, in bits."""
    return value / BIT if key == "entropy" else value


def quartile_band(entropies: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """Return the mean and quartiles of each step over the texts that reach it, and how many these are. entropies: [n_i]
    each
    """
    steps = max((len(each) for each in entropies), default=0)
    columns: dict[str, list[float]] = {"mean": [], "low": [], "high": [], "count": []}
    for step in range(steps):
        here = np.array([each[step] for each in entropies if step < len(each)], np.float64)
        low, high = np.percentile(here, [25, 75])
        for name, value in (("mean", here.mean()), ("low", low), ("high", high), ("count", len(here))):
            columns[name].append(float(value))
    return columns


def measure_figure(
    names: Sequence[str], values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]], label: str
) -> go.Figure:
    """Return every text a dot, in a row for each strategy, with a box of the quartiles behind; a click tells which
    text.

    names [S]; values and texts [S][n_s]: of every text of a strategy. Values that span a lot (perplexities) get a
    logarithmic axis: else one text of thousands squeezes all others onto a line.
    """
    every = np.array([value for mine in values for value in mine], np.float64)
    x = axis(label, LOG | {"nticks": 6} if wide(every) and np.nanmin(every) > 0 else {})
    title, traces, number = plotly_text(label), [], 0
    for at, (name, mine, written) in enumerate(zip(names, values, texts, strict=True)):
        known = [(value, text, number + n) for n, (value, text) in enumerate(zip(mine, written, strict=True))]
        known = [each for each in known if np.isfinite(each[0])]
        number += len(mine)
        traces.append(_box(plotly_text(name), known, HUES[at % len(HUES)], title))
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


def _box(name: str, known: Sequence[tuple[float, str, int]], hue: str, title: str) -> go.Box:
    """Return one strategy: (value, text, number among all texts) of each of its texts."""
    return go.Box(
        orientation="h",
        x=[float(value) for value, _, _ in known],
        y=[name] * len(known),
        text=[beginning(text) for _, text, _ in known],
        customdata=[{"part": n} for _, _, n in known],
        boxpoints="all",
        jitter=0.7,
        pointpos=0,
        boxmean=len(known) > 1,
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
    """Return the mean entropy of each step, a line a strategy, its middle half shaded where there are several texts.

    bands: of `quartile_band`, of entropies in bits. `words`: "step", "entropy", "of_texts".
    """
    shades, lines = [], []
    for at, (name, quartiles) in enumerate(zip(names, bands, strict=True)):
        hue, steps = HUES[at % len(HUES)], list(range(1, len(quartiles["mean"]) + 1))
        label = shorten(visible(name), 30)
        several = max(quartiles["count"], default=1) > 1  # a single text is no mean: a thin line
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
    """Return the first words of a text, in one line, escaped for Plotly."""
    return plotly_text(shorten(visible(text), BEGINNING))
