"""Scaling laws as pictures: loss against compute, parameters against tokens, the price of another size, own runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, RAMP, frame_layout, ramp_at

HEIGHT, NARROW = 440, 420
MOST_LOSS = 5.0  # of the picture of loss against compute
COLOURS = {
    "kaplan": HUES[3],
    "hoffmann1": HUES[2],
    "hoffmann2": HUES[6],
    "hoffmann3": HUES[5],
    "hoffmann3_source": HUES[0],
    "besiroglu": HUES[4],
}
DASHES = {"hoffmann2": "dash", "hoffmann3": "dot", "kaplan": "dashdot"}
GREY = "rgba(128,134,150,0.75)"


@dataclass(frozen=True)
class Line:
    """One line of a picture, with its colour and what each point says."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: str = "solid"
    width: float = 2.5


@dataclass(frozen=True)
class Dots:
    """Marks with a name each; `labelled` are the ones whose names stand beside them."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str]
    colour: str
    symbol: str = "circle"
    labelled: tuple[tuple[int, str], ...] = ()  # (place, where the name stands from there: right, left, above or below)


def size_colour(place: int, count: int) -> str:
    """The colour of one model size among several, the largest darkest; readable on light and on dark."""
    return ramp_at(RAMP[3:7], place / max(1, count - 1))


def told_count(value: float) -> str:
    """A number of parameters or tokens in three digits: 67.0 B, 1.43 T."""
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    unit = min(max(int(np.floor((np.log10(value) + 1e-12) / 3)), 0), 5)
    scaled = float(f"{value / 1000**unit:.3g}")
    if scaled >= 1000 and unit < 5:
        unit, scaled = unit + 1, scaled / 1000
    digits = 0 if unit == 0 or scaled >= 100 else 1 if scaled >= 10 else 2
    return f"{scaled:,.{digits}f}{('', ' k', ' M', ' B', ' T', ' Q')[unit]}"


def told_flops(value: float) -> str:
    """FLOPs as they are written: 5.76 × 10²³."""
    power = int(np.floor(np.log10(value)))
    mantissa = f"{value / 10.0**power:.2f}"
    if mantissa == "10.00":
        mantissa, power = "1.00", power + 1
    return f"{mantissa} × 10{str(power).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def told_ratio(value: float) -> str:
    """Tokens a parameter, or another factor, in three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def told_fit(exponent: float, low: float, high: float) -> str:
    """An exponent with its interval."""
    return f"{exponent:.3f} ({low:.3f}–{high:.3f})".replace("-", "−")


def _lines(lines: Sequence[Line], hover: str, told) -> list[go.Scatter]:
    return [
        go.Scatter(
            x=list(line.x),
            y=list(line.y),
            name=plotly_text(line.name),
            mode="lines",
            line={"color": line.colour, "width": line.width, "dash": line.dash},
            text=[plotly_text(told(x, y)) for x, y in zip(line.x, line.y, strict=True)],
            hovertemplate=f"{plotly_text(line.name)}<br>{hover}<extra></extra>",
        )
        for line in lines
    ]


def _dots(dots: Dots) -> go.Scatter:
    return go.Scatter(
        x=list(dots.x),
        y=list(dots.y),
        name=plotly_text(dots.name),
        mode="markers",
        text=[plotly_text(text) for text in dots.texts],
        hovertemplate="%{text}<extra></extra>",
        marker={
            "size": 9 if dots.symbol == "circle" else 14,
            "color": dots.colour,
            "symbol": dots.symbol,
            "line": {"width": 1, "color": "rgba(255,255,255,0.8)"},
        },
    )


def _axis(title: str, *, log: bool = True, bounds: tuple[float, float] | None = None) -> dict:
    axis = {"title": {"text": plotly_text(title), "standoff": 8}, "automargin": True, "zeroline": False}
    if log:
        axis |= {"type": "log", "exponentformat": "power", "dtick": 1}
    if bounds:
        axis |= {"range": [float(np.log10(each)) for each in bounds] if log else list(bounds)}
    return axis


def _figure(traces: list[go.Scatter], x: dict, y: dict, annotations: Sequence[dict] = (), narrow: int = NARROW) -> str:
    layout = frame_layout({"height": HEIGHT, "narrow": narrow}) | {
        "xaxis": x,
        "yaxis": y,
        "annotations": list(annotations),
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    return go.Figure(traces, layout).to_json()


def loss_figure(sizes: Sequence[Line], best: Sequence[Line], here: Dots, said: Mapping[str, str]) -> str:
    """Loss against compute: sizes with their names, the best of all, and the plan; JSON. `said`: "x", "y"."""
    lines = [*sizes, *best]
    traces = _lines(lines, "%{text}", lambda x, y: f"{told_flops(x)} FLOPs: {y:.3f}")
    for trace in traces[: len(sizes)]:
        trace.update(showlegend=False)
    notes = [
        _note(
            line.x[0], None, line.name, {"y": line.y[0], "xanchor": "left", "yanchor": "bottom", "font": {"size": 10}}
        )
        for line in sizes
    ]
    least = min(min(line.y) for line in lines if line.y)
    xs = [x for line in lines for x in line.x]
    x = _axis(said["x"], bounds=(min(xs), max(xs))) | {"dtick": 2}
    y = _axis(said["y"], log=False, bounds=(min(least, *here.y) - 0.1, MOST_LOSS))
    return _figure([*traces, _dots(here)], x, y, notes)


def _note(x: float, y: float | None, text: str, more: Mapping[str, object]) -> dict:
    """A text at a place of logarithmic axes; without a y, `more` says it."""
    at = {} if y is None else {"y": float(np.log10(y))}
    return {"x": float(np.log10(x)), "text": plotly_text(text), "showarrow": False} | at | more


_BESIDE = {
    "right": {"xanchor": "left", "xshift": 7},
    "left": {"xanchor": "right", "xshift": -7},
    "above": {"xanchor": "center", "yanchor": "bottom", "yshift": 5},
    "below": {"xanchor": "center", "yanchor": "top", "yshift": -5},
}


def plane_figure(
    contours: Sequence[Line],
    lines: Sequence[Line],
    dots: Sequence[Dots],
    bounds: tuple,
    said: Mapping[str, str],
) -> str:
    """Tokens against parameters: lines of the same loss, the optimum of every law, and models; JSON."""

    def told(x: float, y: float) -> str:
        return f"N {told_count(x)}, D {told_count(y)}"

    traces = _lines(contours, "%{text}", told)
    for trace in traces:
        trace.update(showlegend=False)
    small = {"xanchor": "right", "yanchor": "bottom", "font": {"size": 10}, "opacity": 0.75}
    notes = [_note(line.x[-1], line.y[-1], line.name.split(" ")[0], small) for line in contours if line.x]
    notes += [
        _note(each.x[at], each.y[at], each.texts[at].split(":")[0], _BESIDE[where] | {"font": {"size": 10}})
        for each in dots
        for at, where in each.labelled
    ]
    traces += _lines(lines, "%{text}", told) + [_dots(each) for each in dots]
    return _figure(traces, _axis(said["x"], bounds=bounds[0]), _axis(said["y"], bounds=bounds[1]), notes, 600)


def price_figure(lines: Sequence[Line], most: float, said: Mapping[str, str]) -> str:
    """Compute over the least against the share of the optimal parameters; JSON. `said`: "x", "y"."""
    traces = _lines(lines, "%{text}", lambda x, y: f"N/N* {x:.2f}: {y:.2f} ×")
    xs = [x for line in lines for x in line.x]
    ticks = {"tickvals": [0.1, 0.2, 0.5, 1, 2, 5], "dtick": None}
    y = {"tickvals": [1, 1.2, 1.5, 2, 3, 5, 10], "dtick": None}
    x = _axis(said["x"], bounds=(min(xs), max(xs))) | ticks
    return _figure(traces, x, _axis(said["y"], bounds=(0.95, most)) | y)


def runs_figure(runs: Sequence[tuple[Line, Line | None]], ends: Line | None, said: Mapping[str, str]) -> str:
    """The loss of each run against compute: measured points, and the power law through them; JSON."""
    traces = []
    for points, law in runs:
        told = [f"{told_flops(x)} FLOPs: {y:.3f}" for x, y in zip(points.x, points.y, strict=True)]
        traces.append(
            go.Scatter(
                x=list(points.x),
                y=list(points.y),
                name=plotly_text(points.name),
                mode="markers",
                text=told,
                marker={"size": 7, "color": points.colour},
                hovertemplate=f"{plotly_text(points.name)}<br>%{{text}}<extra></extra>",
            )
        )
        if law:
            traces += _lines([law], "%{text}", lambda x, y: f"{told_flops(x)} FLOPs: {y:.3f}")
            traces[-1].update(showlegend=False)
    if ends:
        traces += _lines([ends], "%{text}", lambda x, y: f"{told_flops(x)} FLOPs: {y:.3f}")
    x, y = _axis(said["x"]), _axis(said["y"])
    y |= {"dtick": None, "exponentformat": "none", "nticks": 6}
    return _figure(traces, x, y)
