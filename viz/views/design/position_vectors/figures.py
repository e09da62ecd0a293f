"""Figures of position encodings: their vectors, the vectors' similarity by distance, and the pairs' wavelengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, GREEN, ORANGE, PINK, ZERO, axis, figure
from viz.charts.lines import band, line
from viz.labels import plotly_text
from viz.numbers import exact, number, whole
from viz.theme import HUES, scales

HEIGHT, NARROW = 420, 380
COLORS = {"learned": GREEN, "sinusoidal": ORANGE, "rope": BLUE, "unscaled": HUES[7]}
SECOND = PINK
_CROWDED = 64  # maximum number of pairs with full-size markers


@dataclass(frozen=True, eq=False)
class SchemeLine:
    """One curve in a figure that compares schemes. `scheme` is a key of COLORS."""

    name: str
    scheme: str
    x: np.ndarray  # distances, [N]
    y: np.ndarray  # cosines, [N]
    band: tuple[np.ndarray, np.ndarray] | None = None  # 10% and 90% quantiles, [N] each
    bold: bool = True  # whether it is the selected scheme rather than one drawn for comparison
    pale: bool = False  # whether it is the second curve of its scheme

    @property
    def color(self) -> str:
        """Color of the scheme, or SECOND for its second curve."""
        return SECOND if self.pale else COLORS[self.scheme]


def alternates(values: np.ndarray) -> bool:
    """Return whether a curve changes direction at nearly every step, as if even and odd distances were two lines."""
    steps = np.sign(np.diff(values))
    return len(steps) > 8 and float((steps[1:] != steps[:-1]).mean()) > 0.9


def _map(z: np.ndarray, x: Sequence[int], y: Sequence[int], hover: str) -> go.Heatmap:
    return go.Heatmap(
        z=z.astype(np.float32),
        x=np.array(x),
        y=np.array(y),
        coloraxis="coloraxis",
        hovertemplate=f"{hover}<extra></extra>",
    )


def _signed(heat: go.Heatmap, end: float, x: str, y: str) -> go.Figure:
    """Draw a heatmap with rows from top to bottom and a color scale from `-end` to `end`."""
    bar = {"thickness": 10, "len": 1, "y": 0.5, "tickformat": ".2~g"}
    return figure(
        [heat],
        axis(x),
        axis(y, {"autorange": "reversed"}),
        height=HEIGHT,
        narrow=NARROW,
        meta={"scales": scales("signed", "linear")},
        more={"coloraxis": {"cmin": -end, "cmax": end, "colorbar": bar}},
    )


def matrix_figure(
    table: np.ndarray, positions: Sequence[int], dimensions: Sequence[int], end: float, words: Mapping[str, str]
) -> go.Figure:
    """Draw a table of position vectors, positions down and dimensions across. table [P, D]

    Keys of `words`: `position`, `dimension`, `value`.
    """
    names = {key: plotly_text(words[key]) for key in ("position", "dimension", "value")}
    hover = "{position} %{{y}}, {dimension} %{{x}}<br>{value}: %{{z:.4f}}".format(**names)
    return _signed(_map(table, dimensions, positions, hover), end, words["dimension"], words["position"])


def pairs_figure(cosines: np.ndarray, positions: Sequence[int], words: Mapping[str, str]) -> go.Figure:
    """Draw the cosine of every pair of positions. cosines [P, P]. Keys of `words`: `position`, `other`, `cosine`."""
    names = {key: plotly_text(words[key]) for key in ("position", "other", "cosine")}
    hover = "{position} %{{y}}, {other} %{{x}}<br>{cosine}: %{{z:.3f}}".format(**names)
    return _signed(_map(cosines, positions, positions, hover), 1.0, words["other"], words["position"])


def similarity_figure(lines: Sequence[SchemeLine], bound: SchemeLine | None, words: Mapping[str, str]) -> go.Figure:
    """Draw the cosine as a function of distance, one line per scheme, with the bound, if given, in a panel below.

    Keys of `words`: `distance`, `cosine`, `bound`, `band`.
    """
    traces, hover = [], "d = %{x:,}: %{y:.3f}"
    for each in lines:
        if each.band:
            edges = tuple(f"{each.name}: {words['band']} {share}%" for share in (10, 90))
            traces += band(each.name, each.x, *each.band, each.color, edges=edges, hover=hover)
        dash, width = ("solid", 2.5) if each.bold else ("dot", 1.2)
        more = {"mode": "lines", "legendgroup": plotly_text(each.name)}
        traces.append(line(each.name, each.x, each.y, each.color, hover=hover, dash=dash, width=width, more=more))
    x = axis(words["distance"], {"tickformat": ",", "rangemode": "tozero"})
    y = axis(words["cosine"], ZERO)
    if not bound:
        return figure(traces, x, y, height=HEIGHT, narrow=NARROW)
    more = {"mode": "lines", "yaxis": "y2", "showlegend": False}
    traces.append(line(bound.name, bound.x, bound.y, bound.color, hover=hover, width=1.8, more=more))
    below = {"yaxis2": axis(words["bound"], {"domain": [0, 0.28], "rangemode": "tozero"})}
    return figure(traces, x | {"anchor": "y2"}, y | {"domain": [0.38, 1]}, height=460, narrow=420, more=below)


@dataclass(frozen=True, eq=False)
class Waves:
    """The wavelengths of one scheme's pairs."""

    name: str
    scheme: str
    wavelength: np.ndarray  # positions per full turn, [n]
    bold: bool = True


def waves_figure(waves: Sequence[Waves], context: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the wavelength of each pair on a logarithmic axis; markers above the context length are open.

    Keys of `words`: `pair_share`, `wavelength`, `pair`, `positions`, `context`, `turns`.
    """
    traces = [_wave(each, context, words) for each in waves]
    label = words["context"].format(n=whole(context))
    look = {"mode": "lines", "hovertemplate": f"{plotly_text(label)}<extra></extra>"}
    traces.append(line(label, [0, 1], [context, context], GRAY, hover="", dash="dash", width=1.5, more=look))
    x = axis(words["pair_share"], {"range": [-0.02, 1.02]})
    y = axis(words["wavelength"], {"type": "log", "dtick": 1, "tickformat": ","})
    return figure(traces, x, y, height=HEIGHT, narrow=NARROW)


def _wave(waves: Waves, context: int, words: Mapping[str, str]) -> go.Scatter:
    """Draw the wavelengths of one scheme.

    Markers are small if there are many pairs or the curve is not bold, and omitted if both hold.
    """
    n, label, color = len(waves.wavelength), plotly_text(waves.name), COLORS[waves.scheme]
    hovers = [
        f"{label}<br>{plotly_text(words['pair'].format(i=i, n=n))}<br>{exact(length)} {plotly_text(words['positions'])}"
        f"<br>{plotly_text(words['turns'].format(turns=number(context / length), context=whole(context)))}"
        for i, length in enumerate(waves.wavelength.tolist())
    ]
    symbols = ["circle-open" if length > context else "circle" for length in waves.wavelength]
    more = {
        "mode": "lines" if n > _CROWDED and not waves.bold else "lines+markers",
        "marker": {"size": 4 if n > _CROWDED or not waves.bold else 7, "color": color, "symbol": symbols},
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    dash, width = ("solid", 1.5) if waves.bold else ("dot", 0.8)
    return line(waves.name, np.arange(n) / n, waves.wavelength, color, hover="", dash=dash, width=width, more=more)


def spectrum_figure(wavelength: np.ndarray, share: np.ndarray, words: Mapping[str, str]) -> go.Figure:
    """Draw the fraction of the variance over positions at each wavelength on two logarithmic axes. [F] each

    Keys of `words`: `wavelength`, `share`, `positions`.
    """
    hover = f"%{{x:,.4g}} {plotly_text(words['positions'])}: %{{y:.2%}}"
    more = {"mode": "lines+markers", "showlegend": False}
    trace = line(words["share"], wavelength, share, COLORS["learned"], hover=hover, width=1.2, more=more)
    x = axis(words["wavelength"], {"type": "log", "tickformat": ",", "dtick": "D2"})
    y = axis(words["share"], {"type": "log", "tickformat": ".3~%", "dtick": "D2"})
    return figure([trace], x, y, height=HEIGHT, narrow=NARROW)
