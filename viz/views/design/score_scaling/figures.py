"""Figures of scores with and without scaling: their distribution and their softmax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, LEGEND, LOG, ORANGE, axis, figure, token_axis, token_names
from viz.charts.lines import bars, grid, guide, line, stacked, token_data
from viz.labels import plotly_text
from viz.numbers import BIT
from viz.theme import HUES

BINS = 60
KEYS = 5  # maximum number of keys of a row that are drawn as lines
MEASURES = ("entropy", "largest", "jacobian")
_COLORS = {"trained": BLUE, "chosen": ORANGE}


@dataclass(frozen=True, eq=False)
class Both:
    """One quantity under the scaling by sqrt(d) and under the selected scaling."""

    trained: np.ndarray
    chosen: np.ndarray


def to_page_unit(measure: str, values: Any) -> Any:
    """Convert a measure to the unit shown on the page: entropy from nats to bits, the others unchanged."""
    return values / BIT if measure == "entropy" else values


def scores_figure(both: Both, words: Mapping[str, str]) -> go.Figure:
    """Draw the histograms of the scores under both scalings. Keys of `words`: `trained`, `chosen`, `score`, `share`."""
    scores = {key: getattr(both, key)[~np.isnan(getattr(both, key))] for key in _COLORS}
    low, high = min(part.min() for part in scores.values()), max(part.max() for part in scores.values())
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    hover = f"{plotly_text(words['score'])}: %{{x:.2f}}<br>{plotly_text(words['share'])}: %{{y:.2%}}"
    look = {"opacity": 0.65, "width": float(edges[1] - edges[0])}
    middles = ((edges[1:] + edges[:-1]) / 2).round(6).tolist()
    traces = [
        bars(words[key], middles, np.histogram(part, edges)[0] / len(part), _COLORS[key], hover=hover, more=look)
        for key, part in scores.items()
    ]
    y = axis(words["share"], {"tickformat": ".0%"})
    return figure(traces, axis(words["score"]), y, more={"barmode": "overlay", "bargap": 0})


def row_figure(both: Both, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw one row of weights under both scalings. Keys of `words`: `trained`, `chosen`, `key`, `weight`."""
    n = len(both.trained)
    hover = f"{plotly_text(words['key'])}: %{{text}}<br>{plotly_text(words['weight'])}: %{{y:.4f}}"
    names, data = token_names(pieces[:n]), {"customdata": token_data(n)}
    traces = [
        bars(words[key], range(n), getattr(both, key), color, hover=hover, text=names, more=data)
        for key, color in _COLORS.items()
    ]
    y = axis(words["weight"], {"range": [0, 1.02]})
    return figure(traces, token_axis(words["key"], pieces[:n]), y, meta={"places": True}, more={"bargap": 0.2})


def lookup_figure(result: Any, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the weights of a row's largest keys by temperature, and the output's distance from the best key's value.

    `result`: an object with temperatures, weights and apart. Keys of `words`: `temperature`, `weight`, `apart`.
    """
    trained = result.weights[int(np.abs(np.log(result.temperatures)).argmin())]
    keys = np.argsort(-trained, kind="stable")[:KEYS]
    start, x = f"{plotly_text(words['temperature'])}: %{{x:.3~g}}<br>", result.temperatures
    plain = {"mode": "lines"}
    weights = [
        line(
            f"{pieces[key]} ({key})",
            x,
            result.weights[:, key],
            color,
            hover=f"{start}{plotly_text(words['weight'])}: %{{y:.4f}}",
            more=plain,
        )
        for key, color in zip(keys.tolist(), HUES, strict=False)
    ]
    hover = f"{start}{plotly_text(words['apart'])}: %{{y:.4~g}}"
    apart = line(words["apart"], x, result.apart, HUES[-1], hover=hover, dash="dash", more=plain)
    y = {
        "weight": axis(words["weight"], {"range": [0, 1.02]}),
        "apart": axis(words["apart"], {"rangemode": "tozero"}),
    }
    panels = {"weight": weights, "apart": [apart]}
    return stacked(panels, axis(words["temperature"], LOG), y, height=460, legend=LEGEND)


def rows_figure(trained: Any, chosen: Any, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the entropy in bits, largest weight and Jacobian norm of every row, one panel each.

    `trained`, `chosen`: objects with keys and MEASURES, each [T], one entry per row. Keys of `words`: each of MEASURES,
    `trained`, `chosen`, `query`, `most`.
    """
    T = len(trained.keys)
    x, names = list(range(T)), token_names(pieces)
    panels: dict[str, list] = {}
    for at, name in enumerate(MEASURES):
        hover = f"{plotly_text(words['query'])}: %{{text}}<br>{plotly_text(words[name])}: %{{y:.4f}}"
        more = {"legendgroup": "", "showlegend": at == 0, "customdata": token_data(T)}
        panels[name] = [
            line(
                words[key],
                x,
                to_page_unit(name, getattr(rows, name)),
                _COLORS[key],
                hover=hover,
                text=names,
                more=more | {"legendgroup": key},
            )
            for key, rows in (("trained", trained), ("chosen", chosen))
        ]
    largest = np.log2(np.maximum(trained.keys, 1))
    panels["entropy"].insert(0, guide(words["most"], x, largest))
    y = {name: axis(words[name], {"rangemode": "tozero"}) for name in MEASURES}
    x_axis = token_axis(words["query"], pieces)
    return stacked(panels, x_axis, y, height=560, legend=LEGEND, meta={"places": True})


def random_figure(sizes: Sequence[int], rows: Sequence[Any], words: Mapping[str, str]) -> go.Figure:
    """Draw the variance, entropy in bits, largest weight and Jacobian norm by the dimension of random vectors.

    `rows`: objects with variance, scaled_variance, and MEASURES as pairs (without, with scaling). Keys of `words`:
    `variance`, each of MEASURES, `size`, `without`, `with`.
    """
    pairs = {"variance": [(each.variance, each.scaled_variance) for each in rows]}
    pairs |= {name: [getattr(each, name) for each in rows] for name in MEASURES}
    panels = {}
    for at, (name, both) in enumerate(pairs.items()):
        hover = f"{plotly_text(words['size'])}: %{{x:,}}<br>{plotly_text(words[name])}: %{{y:.4~g}}"
        panels[name] = [
            line(
                words[key],
                sizes,
                [to_page_unit(name, pair[place]) for pair in both],
                color,
                hover=hover,
                more={"legendgroup": key, "showlegend": at == 0},
            )
            for key, place, color in (("with", 1, BLUE), ("without", 0, ORANGE))
        ]
    y = {name: axis(words[name], {"rangemode": "tozero"}) for name in MEASURES}
    y["variance"] = axis(words["variance"], {"type": "log", "dtick": 1})
    labels = {"tickvals": list(sizes), "ticktext": [f"{n:,}" for n in sizes], "tickangle": 0}
    x = dict.fromkeys(pairs, axis(words["size"], {"type": "log", **labels}))
    return grid(panels, x, y, height=560, narrow=900, legend=LEGEND)
