"""Figures of a Mamba layer along a prompt: step sizes, decay times, B and C, and retention of a token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, LEGEND, ORANGE, axis, count_axis, figure, ticks, token_axis, token_names
from viz.charts.lines import band, bars, guide, line, stacked
from viz.charts.shades import colored, shade_of
from viz.labels import plotly_text, tick_text
from viz.numbers import number, tens
from viz.theme import frame, scales

ROWS = 48  # maximum number of rows of a heat map; if there are more channels, neighbors are averaged
QUARTERS = (0.25, 0.5, 0.75)
BINS = 40
BARE = {"showticklabels": False, "ticks": "", "showgrid": False}  # options of an axis of channels, which have no labels
HEIGHT, NARROW, TALL = 340, 340, 480


@dataclass(frozen=True, eq=False)
class Channels:
    """Sorted channels, averaged in groups of neighbors, as rows of a heat map."""

    values: np.ndarray  # means of the groups, NaN for a group with only NaN. [R, T]
    first: np.ndarray  # rank of each group's first channel, then the number of channels. [R + 1]


def grouped(values: np.ndarray, by: np.ndarray) -> Channels:
    """Sort the channels by increasing `by`, and average neighbors into at most ROWS rows.

    values [T, I], by [I]
    """
    ordered = values[:, np.argsort(by, kind="stable")].T
    first = np.linspace(0, len(ordered), min(ROWS, len(ordered)) + 1).round().astype(int)
    present = ~np.isnan(ordered)
    sums, counts = (
        np.add.reduceat(each, first[:-1], 0) for each in (np.where(present, ordered, 0), present.astype(int))
    )
    with np.errstate(invalid="ignore"):
        return Channels(np.where(counts > 0, sums / counts, np.nan), first)


def quartiles(values: np.ndarray) -> np.ndarray:
    """Compute the quartiles over the channels at each token, ignoring NaN. [T, I] -> [3, T]"""
    present = ~np.isnan(values).all(-1)
    quantiles = np.full((len(QUARTERS), len(values)), np.nan)
    if present.any():
        quantiles[:, present] = np.nanquantile(values[present], QUARTERS, axis=-1)
    return quantiles


# --- the content of the state ---


def share_figure(
    total: np.ndarray,
    share: np.ndarray,
    source: int,
    pieces: Sequence[str],
    words: Mapping[str, str],
    places: Sequence[int],
) -> go.Figure:
    """Draw the token's fraction of the state from position `source` on: in total, and as quartiles over the channels.

    total [T], share [T, I]. A click on a token selects that of the prompt at its entry of `places` [T]. `words`:
    "token", "share", "whole", "channel", "even".
    """
    x, names, data = list(range(source, len(pieces))), token_names(pieces)[source:], _chosen(places)[source:]
    low, middle, high = quartiles(share[source:])
    hover = f"{plotly_text(words['token'])}: %{{text}}<br>{plotly_text(words['share'])}: %{{y:.2%}}"
    more = {"customdata": data}
    traces = [
        *band(words["channel"], x, low, high, ORANGE),
        line(words["channel"], x, middle, ORANGE, hover=hover, text=names, width=2, more=more),
        line(words["whole"], x, total[source:], BLUE, hover=hover, text=names, width=3, more=more),
        guide(words["even"], x, 1 / (1 + np.array(x))),
    ]
    y_axis = axis(words["share"], {"rangemode": "tozero", "tickformat": ".0%"})
    x_axis = token_axis(words["token"], pieces)
    return figure(traces, x_axis, y_axis, height=HEIGHT, narrow=NARROW + 40, meta={"places": True})


def kept_figure(kept: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the fraction of the token's write that remains in each channel, with the most retentive channels on top.

    kept [T, I], NaN before the token. `words`: "token", "channels", "kept".
    """
    totals = np.where(np.isnan(kept), 0, kept).sum(0)
    rows = grouped(kept, totals)
    colors = {"cmin": 0, "cmax": 1, "colorbar": _bar({"tickformat": ".0%"}, words["kept"])}
    heat = _heat(rows.values, pieces, f"{plotly_text(words['kept'])}: %{{z:.2%}}", words, _spans(rows))
    chart = frame(go.Figure(heat), meta=_meta(scales("share", "linear"), HEIGHT))
    chart.update_layout(coloraxis=colors, xaxis=_tokens(words["token"], pieces))
    return chart.update_yaxes(**axis(words["channels"], BARE))


# --- the selections of the tokens ---


def delta_figure(
    delta: np.ndarray,
    pieces: Sequence[str],
    words: Mapping[str, str],
    relative: bool,
    places: Sequence[int],
) -> go.Figure:
    """Draw the mean step size along the prompt and, below it, that of all channels, the largest on top.

    delta [T, I]. If `relative`, the relative difference of a step from its channel's mean is drawn. A click on a mean
    selects the token at its entry of `places` [T]. `words`: "token", "channels", "delta", "mean", "relative".
    """
    rows = grouped(delta / delta.mean(0) - 1 if relative else delta, delta.mean(0))
    z, colors, shades = colored(rows.values, shade_of(rows.values, signed=relative))
    value = words["relative" if relative else "delta"]
    value_line = f"{plotly_text(value)}: %{{customdata:{'+.3g' if relative else '.4g'}}}"
    heat = _heat(z, pieces, value_line, words, _spans(rows)).update(customdata=rows.values.astype(np.float32))
    heat.update(meta={"exact": True})
    hover = f"{plotly_text(words['token'])}: %{{x}}<br>{plotly_text(words['delta'])}: %{{y:.4g}}"
    more = {"customdata": _chosen(places), "showlegend": False}
    mean = line(words["mean"], token_names(pieces), delta.mean(-1), BLUE, hover=hover, more=more)
    y_axes = {
        "mean": axis(words["mean"], {"rangemode": "tozero", "nticks": 4}),
        "all": axis(words["channels"], BARE),
    }
    x_axis, meta = _tokens(words["token"], pieces), _meta(shades, TALL)
    chart = stacked({"mean": [mean], "all": [heat]}, x_axis, y_axes, height=TALL, legend=LEGEND, meta=meta)
    colorbar = colors["colorbar"] | {
        "title": {"text": plotly_text(value), "side": "right"},
        "len": 0.68,
        "y": 0.34,
    }
    chart.update_layout(coloraxis=colors | {"colorbar": colorbar})
    return chart.update_layout(yaxis={"domain": [0.76, 1]}, yaxis2={"domain": [0, 0.68]})


def decay_figure(tokens: np.ndarray, length: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the histogram of decay times on a logarithmic axis, with a guide at the prompt's length. tokens [I, N]

    `words`: "tokens", "count", "rates", "length".
    """
    exponents = np.log10(tokens.ravel())
    low, high = float(exponents.min()), float(exponents.max())
    counts, edges = np.histogram(exponents, BINS, (low, high) if high > low else (low - 0.5, low + 0.5))
    ends = [f"{number(10**a)} … {number(10**b)}" for a, b in pairwise(edges)]
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    hover = f"{plotly_text(words['tokens'])}: %{{text}}<br>{plotly_text(words['count'])}: %{{y:,}}"
    more = {"width": float(edges[1] - edges[0]), "showlegend": False}
    end = [np.log10(length)] * 2
    traces = [
        bars(words["rates"], middle, counts, BLUE, hover=hover, text=ends, more=more),
        guide(words["length"], end, [0, float(counts.max())], "dash"),
    ]
    powers = list(range(int(np.floor(min(edges[0], end[0]))), int(np.ceil(max(edges[-1], end[0]))) + 1))
    powers = powers[:: -(-len(powers) // 8)]
    x_axis = axis(words["tokens"], {"tickvals": powers, "ticktext": tens(powers), "showgrid": False})
    y_axis = axis(words["count"], {"rangemode": "tozero"})
    return figure(traces, x_axis, y_axis, height=HEIGHT, narrow=NARROW, more={"bargap": 0})


def numbers_figure(values: np.ndarray, pieces: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw B or C, one value per token and state dimension. values [T, N]; `words`: "token", "number", "value"."""
    z, colors, shades = colored(values.T, shade_of(values, signed=True))
    value_line = f"{plotly_text(words['value'])}: %{{customdata:.4g}}"
    heat = _heat(z, pieces, value_line, words, [f"{plotly_text(words['number'])} {n}" for n in range(len(z))])
    heat.update(customdata=values.T.astype(np.float32), meta={"exact": True}, y=list(range(len(z))))
    chart = frame(go.Figure(heat), meta=_meta(shades, HEIGHT))
    colors["colorbar"]["title"] = {"text": plotly_text(words["value"]), "side": "right"}
    chart.update_layout(coloraxis=colors, xaxis=_tokens(words["token"], pieces))
    return chart.update_yaxes(**count_axis(words["number"], len(z)), autorange="reversed")


# --- shared helpers ---


def _chosen(places: Sequence[int]) -> list[dict]:
    """Build the custom data with which a click on each point selects the token at its place."""
    return [{"tokens": [place]} for place in places]


def _spans(rows: Channels) -> list[str]:
    """Format the ranks of the channels in each row, counted from 1, such as `1–32`."""
    return [f"{a + 1:,}–{b:,}" if b - a > 1 else f"{b:,}" for a, b in pairwise(rows.first)]


def _heat(
    z: np.ndarray, pieces: Sequence[str], value_line: str, words: Mapping[str, str], rows: Sequence[str]
) -> go.Heatmap:
    lines = [f"{plotly_text(words['token'])}: %{{x}}", "%{y}", value_line]
    return go.Heatmap(
        z=z.astype(np.float32),
        x=token_names(pieces),
        y=list(rows),
        coloraxis="coloraxis",
        hoverongaps=False,
        xgap=int(len(pieces) <= 40),
        hovertemplate="<br>".join(lines) + "<extra></extra>",
    )


def _tokens(title: str, pieces: Sequence[str]) -> dict:
    """Build a category axis of tokens, whose hover texts show the full token names."""
    names, shown = token_names(pieces), ticks(len(pieces))
    labels = {
        "tickvals": [names[i] for i in shown],
        "ticktext": [tick_text(pieces[i]) for i in shown],
        "tickangle": -60,
    }
    return axis(title, {"type": "category", "showgrid": False, "range": [-0.5, len(pieces) - 0.5], **labels})


def _meta(shades: dict, height: int) -> dict:
    return {"scales": shades, "height": height, "narrow": height, "places": True}


def _bar(more: dict, title: str) -> dict:
    title_text = {"text": plotly_text(title), "side": "right"}
    return {"thickness": 10, "len": 1, "outlinewidth": 0, "title": title_text, **more}
