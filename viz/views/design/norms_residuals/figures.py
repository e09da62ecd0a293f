"""Pictures of tiny trainings: lines with a band over seeds, a gradient by block and step, and the text they learn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.shades import coloured
from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT, HEAT_HEIGHT = 380, 380
GREY = "rgba(128,134,150,0.9)"
COLOURS = {
    "pre": HUES[0],
    "post": HUES[4],
    "pre_bare": HUES[2],
    "post_bare": HUES[3],
    "pre_cold": HUES[5],
    "post_cold": HUES[1],
}
DASHES = {"pre_bare": "dash", "post_bare": "dash", "pre_cold": "dot", "post_cold": "dot"}
SMOOTH = 10  # steps of which a loss is the mean


@dataclass(frozen=True, eq=False)
class Drawn:
    """A line: its values, and where there are several seeds the smallest and the largest at each place."""

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]  # NaN where there is none
    band: tuple[np.ndarray, np.ndarray] | None = None
    dash: str = "solid"
    marks: bool = False
    told: bool = True  # whether its numbers are measured ones, for hover and export


@dataclass(frozen=True)
class Axes:
    """Titles with units, and which axes are logarithmic."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[float, ...] = ()  # labels of x, where they are not any numbers
    height: int = HEIGHT


# --- numbers ---------------------------------------------------------------------------------------


def running_mean(values: np.ndarray, window: int = SMOOTH) -> np.ndarray:
    """The mean of each value and those before it, `window` in all, fewer at the beginning. [N] -> [N]"""
    total = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(1, len(values) + 1)
    first = np.maximum(at - window, 0)
    return (total[at] - total[first]) / (at - first)


def told(value: float) -> str:
    """A number in three digits, with a proper minus sign; "–" where there is none."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    text = f"{value:.2e}" if size >= 1e5 or 0 < size < 1e-4 else f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("-", "−")


def loss_told(value: float) -> str:
    """A loss with three decimals; "–" where there is none."""
    return f"{value:.3f}" if math.isfinite(value) else "–"


def mean_band(values: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Mean, and smallest and largest over the seeds. values [S, N] -> [N], ([N], [N])"""
    return values.mean(0), (values.min(0), values.max(0))


def by_place(values: Sequence[np.ndarray]) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The same of places that have their own seeds each. values: N arrays [S]"""
    return mean_band(np.stack(values, axis=1))


def last_mean(losses: np.ndarray, window: int = SMOOTH) -> list[float]:
    """The mean of the last losses of each row, NaN where one of them is none. losses [V, N]"""
    return losses[:, -window:].mean(1).tolist()


# --- figures ---------------------------------------------------------------------------------------


def lines_figure(drawn: Sequence[Drawn], axes: Axes) -> str:
    """Lines, those with seeds over a band from the smallest to the largest; JSON."""
    traces: list[go.Scatter] = []
    for each in drawn:
        if each.band is not None:
            traces += _band(each)
        traces.append(_line(each))
    axis = {"automargin": True, "zeroline": False}
    across = {"title": {"text": plotly_text(axes.x), "standoff": 8}} | _log(axes.log_x)
    if axes.ticks:
        across |= {"tickvals": list(axes.ticks), "ticktext": [f"{tick:g}" for tick in axes.ticks]}
    layout = frame_layout({"height": axes.height, "narrow": axes.height + 40}) | {
        "xaxis": axis | across,
        "yaxis": axis | {"title": {"text": plotly_text(axes.y), "standoff": 8}} | _log(axes.log_y),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(traces, layout).to_json()


def _log(log: bool) -> dict:
    return {"type": "log", "tickformat": ",~g", "nticks": 7} if log else {}


def _band(each: Drawn) -> list[go.Scatter]:
    """From the smallest to the largest seed: only seen, the line says the numbers."""
    hidden = {
        "x": list(each.x),
        "mode": "lines",
        "line": {"width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
        "legendgroup": each.name,
    }
    low, high = each.band
    red, green, blue = (int(each.colour[i : i + 2], 16) for i in (1, 3, 5))
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.18)"}
    return [go.Scatter(y=_plain(low), **hidden), go.Scatter(y=_plain(high), **hidden, **fill)]


def _line(each: Drawn) -> go.Scatter:
    name = plotly_text(each.name)
    spans = [""] * len(each.y)
    if each.band is not None:
        spans = [f"{told(low)} – {told(high)}" for low, high in zip(*each.band, strict=True)]
    trace = go.Scatter(
        x=list(each.x),
        y=_plain(each.y),
        name=name,
        legendgroup=each.name,
        mode="lines+markers" if each.marks else "lines",
        line={"color": each.colour, "width": 2.5 if each.told else 1.5, "dash": each.dash},
        marker={"size": 6},
    )
    if not each.told:
        return trace.update(hoverinfo="skip")
    more = "<br>[%{text}]" if each.band is not None else ""
    return trace.update(text=spans, hovertemplate=f"{name}<br>%{{x}}: %{{y:.4g}}{more}<extra></extra>")


def _plain(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON has them."""
    return [float(value) if math.isfinite(value) else None for value in values]


def heat_figure(norms: np.ndarray, x: str, y: str, value: str) -> str:
    """The length of a gradient at every block and step, colours of its logarithm. norms [N, L]; JSON."""
    values = norms.T  # [L, N]
    z, bar, scales = coloured(values, "log" if (values > 0).any() else "even")
    heat = go.Heatmap(
        z=z.astype(np.float32),
        customdata=values.astype(np.float32),
        coloraxis="coloraxis",
        meta={"exact": True},
        x=list(range(1, values.shape[1] + 1)),
        y=list(range(values.shape[0])),
        hovertemplate=f"{plotly_text(y)}: %{{y}}<br>{plotly_text(x)}: %{{x}}<br>{plotly_text(value)}: "
        "%{customdata:.4g}<extra></extra>",
    )
    meta = {"scales": scales, "height": HEAT_HEIGHT, "narrow": HEAT_HEIGHT}
    axis = {"automargin": True, "zeroline": False, "showgrid": False}
    layout = frame_layout(meta) | {
        "coloraxis": {"colorscale": scales["light"], **bar},
        "xaxis": axis | {"title": {"text": plotly_text(x), "standoff": 8}, "nticks": 9},
        "yaxis": axis | {"title": {"text": plotly_text(y), "standoff": 8}, "dtick": 1 if values.shape[0] <= 8 else 2},
    }
    layout["coloraxis"]["colorbar"]["title"] = {"text": plotly_text(value), "side": "right"}
    return go.Figure([heat], layout).to_json()
