"""Ways to round one matrix: errors of its output, the search for a scaling, and what compensating does on the way."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout
from viz.views.predictions.figures import percent

HEIGHT = 320
COLOURS = {"nearest": HUES[7], "scaled": HUES[0], "compensated": HUES[4], "both": HUES[3]}
_SEEN, _UNSEEN = HUES[5], HUES[0]


def error_figure(names: Sequence[str], fit: Sequence[float], held_out: Sequence[float], said: Mapping[str, str]) -> str:
    """Two bars a method, JSON. `said`: "seen", "unseen", "error"."""
    traces = []
    for key, values, colour in (("seen", fit, _SEEN), ("unseen", held_out, _UNSEEN)):
        label = plotly_text(said[key])
        traces.append(
            go.Bar(
                x=[plotly_text(name) for name in names],
                y=[100 * value for value in values],
                name=label,
                marker={"color": colour},
                hovertext=[
                    f"{plotly_text(name)}<br>{label}: {percent(value)}"
                    for name, value in zip(names, values, strict=True)
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return _figure(traces, "", said["error"], {"barmode": "group", "bargap": 0.3})


def power_figure(powers: Sequence[float], errors: Sequence[float], best: float, said: Mapping[str, str]) -> str:
    """Output error against the exponent of the scaling, the best one marked, JSON; `said`: words of the view."""
    y = [100 * error for error in errors]
    hover = f"{plotly_text(said['power'])}: %{{x:.2f}}<br>{plotly_text(said['error'])}: %{{y:.4g}}<extra></extra>"
    at = list(powers).index(best)
    traces = [
        go.Scatter(
            x=list(powers),
            y=y,
            mode="lines+markers",
            name=plotly_text(said["scaled"]),
            hovertemplate=hover,
            line={"color": COLOURS["scaled"], "width": 2.5},
            marker={"size": 6, "color": COLOURS["scaled"]},
        ),
        go.Scatter(
            x=[best],
            y=[y[at]],
            mode="markers",
            name=plotly_text(said["best_power"]),
            hovertemplate=hover,
            marker={"size": 13, "color": COLOURS["scaled"], "symbol": "circle-open", "line": {"width": 3}},
        ),
        go.Scatter(
            x=[powers[0], powers[-1]],
            y=[y[0], y[0]],
            mode="lines",
            name=plotly_text(said["nearest"]),
            hovertemplate=hover,
            line={"color": COLOURS["nearest"], "width": 2, "dash": "dash"},
        ),
    ]
    return _figure(traces, said["power"], said["error"], {})


def column_figure(
    columns: Sequence[int], plain: Sequence[float], made_up: Sequence[float], said: Mapping[str, str]
) -> str:
    """Output error after so many columns were rounded, JSON. `said`: "columns", "error", "nearest", "compensated"."""
    traces = []
    for key, values in (("nearest", plain), ("compensated", made_up)):
        label = plotly_text(said[key])
        traces.append(
            go.Scatter(
                x=[0, *columns],
                y=[0.0, *(100 * value for value in values)],
                mode="lines+markers",
                name=label,
                line={"color": COLOURS[key], "width": 2.5},
                marker={"size": 6, "color": COLOURS[key]},
                hovertemplate=f"{label}<br>%{{x:,}} {plotly_text(said['columns_of'])}: %{{y:.4g}} %<extra></extra>",
            )
        )
    return _figure(traces, said["columns"], said["error"], {})


def _figure(traces: list, x: str, y: str, more: Mapping[str, object]) -> str:
    axis = {"automargin": True, "zeroline": False}
    layout = (
        frame_layout({"height": HEIGHT, "narrow": HEIGHT})
        | {
            "xaxis": axis | {"title": {"text": plotly_text(x), "standoff": 8}},
            "yaxis": axis | {"title": {"text": plotly_text(y), "standoff": 8}, "rangemode": "tozero"},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        }
        | more
    )
    return go.Figure(traces, layout).to_json()
