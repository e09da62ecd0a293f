"""Pictures of a query and a key that are turned in pairs: what each pair adds to the score, by distance, by shift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

QUERY, KEY, SUM = HUES[0], HUES[4], HUES[2]
_GREY = "rgba(128,134,150,0.9)"
_PALE = "rgba(128,134,150,0.35)"
_LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
MOST_SHIFT = 1 << 20  # a million positions
SHOWN = 16  # circles at first


@dataclass(frozen=True, eq=False)
class Curve:
    """The score by distance, all pairs and the slow ones alone."""

    score: np.ndarray  # [N], distances 0 .. N - 1
    slow: np.ndarray  # [N]
    distance: int  # of the pair in the prompt
    here: float  # its score


@dataclass(frozen=True, eq=False)
class Errors:
    """How far a score moves when both positions are shifted, and the bound, in one number format."""

    name: str
    bound_name: str
    errors: np.ndarray  # [N]
    bound: np.ndarray  # [N]
    colour: str


def shifts() -> list[int]:
    """The shifts that are tried: every one up to 256, then in growing steps up to a million."""
    grown = np.geomspace(256, MOST_SHIFT, 260).round().astype(int)
    return np.unique(np.concatenate([np.arange(1, 257), grown])).tolist()


def strongest(q: np.ndarray, k: np.ndarray) -> list[int]:
    """The pairs with the largest |q_i| |k_i|, which is the most they can add; in the order of the dimensions."""
    return sorted(np.argsort(-(q * k), kind="stable")[:SHOWN].tolist())


def slow_sum(parts: np.ndarray, frequency: np.ndarray, context: int) -> np.ndarray:
    """Of contributions [N, n + 1], the sum of the pairs that turn less than once within the context, and the rest."""
    slow = np.append(2 * np.pi / frequency > context, True)
    return parts[:, slow].sum(1)


def most_of(values: np.ndarray) -> float:
    """The largest of them, 0 for none."""
    return float(values.max(initial=0.0))


def tiny(value: float) -> str:
    """An error in a sentence: 1.8e−5."""
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−") if value else "0"


def numbers(values: np.ndarray) -> list[float]:
    """As JSON takes them, digits enough for a picture and its sums."""
    return [float(f"{value:.9g}") for value in values.tolist()]


def _axis(title: str, more: Mapping[str, object] | None = None) -> dict:
    title = {"text": plotly_text(title), "standoff": 8}
    return {"title": title, "automargin": True, "zeroline": False} | dict(more or {})


def bars_figure(before: np.ndarray, after: np.ndarray, names: Sequence[str], said: Mapping[str, str]) -> str:
    """What each pair adds to the score, before and after turning, and the running sum; JSON. [n + 1] each.

    `names` of the bars; `said`: "pair_axis", "adds", "before", "after", "sum", "running".
    """
    x = list(range(len(names)))
    labels = {key: plotly_text(said[key]) for key in ("before", "after", "sum", "running")}
    shown = [plotly_text(name) for name in names]
    hovers = {key: f"%{{text}}<br>{label}: %{{y:+.4f}}<extra></extra>" for key, label in labels.items()}
    traces = [
        go.Bar(
            x=x,
            y=before,
            name=labels["before"],
            text=shown,
            textposition="none",
            width=0.86,
            marker={"color": _PALE, "line": {"color": _GREY, "width": 1}},
            hovertemplate=hovers["before"],
        ),
        go.Bar(
            x=x,
            y=after,
            name=labels["after"],
            text=shown,
            textposition="none",
            width=0.5,
            marker={"color": QUERY},
            hovertemplate=hovers["after"],
        ),
        go.Scatter(
            x=[*x, len(x)],
            y=[*np.cumsum(after), after.sum()],
            name=labels["running"],
            text=[*shown, labels["sum"]],
            mode="lines",
            line={"color": SUM, "width": 1.8, "shape": "hv"},
            hovertemplate=hovers["running"],
        ),
        go.Scatter(
            x=[len(x)],
            y=[after.sum()],
            name=labels["sum"],
            text=[labels["sum"]],
            mode="markers",
            marker={"color": SUM, "size": 10},
            hovertemplate=hovers["sum"],
            cliponaxis=False,
        ),
    ]
    layout = frame_layout({"height": 400, "narrow": 380}) | {
        "xaxis": _axis(said["pair_axis"], {"range": [-0.8, len(x) + 0.6], "nticks": 12, "tickformat": "d"}),
        "yaxis": _axis(said["adds"], {"zeroline": True, "zerolinecolor": "rgba(128,128,128,0.5)"}),
        "barmode": "overlay",
        "legend": _LEGEND,
    }
    return go.Figure(traces, layout).to_json()


def distance_figure(curve: Curve, said: Mapping[str, str]) -> str:
    """The score as the key alone moves; JSON. `said`: "distance", "score", "all", "slow", "here"."""
    x = np.arange(len(curve.score))
    traces = []
    for key, y, colour, width in (("all", curve.score, QUERY, 1.6), ("slow", curve.slow, HUES[1], 2.4)):
        label = plotly_text(said[key])
        traces.append(
            go.Scatter(
                x=x,
                y=y,
                name=label,
                mode="lines",
                line={"color": colour, "width": width},
                hovertemplate=f"{label}<br>d = %{{x:,}}: %{{y:+.4f}}<extra></extra>",
            )
        )
    label = plotly_text(said["here"])
    traces.append(
        go.Scatter(
            x=[curve.distance],
            y=[curve.here],
            name=label,
            mode="markers",
            cliponaxis=False,
            marker={"size": 11, "color": KEY},
            hovertemplate=f"{label}<br>d = %{{x:,}}: %{{y:+.4f}}<extra></extra>",
        )
    )
    layout = frame_layout({"height": 400, "narrow": 380}) | {
        "xaxis": _axis(said["distance"], {"tickformat": ",", "range": [-0.01 * len(x), 1.01 * len(x)]}),
        "yaxis": _axis(said["score"], {"zeroline": True, "zerolinecolor": "rgba(128,128,128,0.5)"}),
        "legend": _LEGEND,
    }
    return go.Figure(traces, layout).to_json()


def shift_figure(by: Sequence[int], found: Sequence[Errors], context: int, said: Mapping[str, str]) -> str:
    """How far the score moves by shift, both axes logarithmic; JSON. `said`: "shift", "error", "context"."""
    x, traces = np.array(by), []
    for each in found:
        label, bound = plotly_text(each.name), plotly_text(each.bound_name)
        moved = each.errors > 0  # a logarithmic axis has no 0
        traces.append(
            go.Scatter(
                x=x,
                y=each.bound,
                name=bound,
                mode="lines",
                line={"color": each.colour, "width": 1.5, "dash": "dash"},
                hovertemplate=f"{bound}<br>s = %{{x:,}}: %{{y:.2e}}<extra></extra>",
            )
        )
        traces.append(
            go.Scatter(
                x=x[moved],
                y=each.errors[moved],
                name=label,
                mode="markers",
                marker={"size": 4, "color": each.colour, "opacity": 0.75},
                hovertemplate=f"{label}<br>s = %{{x:,}}: %{{y:.2e}}<extra></extra>",
            )
        )
    low = min(float(each.bound.min()) for each in found) / 1e3
    high = max(float(each.bound.max()) for each in found) * 3
    name = plotly_text(said["context"].format(n=f"{context:,}"))
    traces.append(
        go.Scatter(
            x=[context, context],
            y=[low, high],
            name=name,
            mode="lines",
            line={"color": _GREY, "width": 1.2, "dash": "dot"},
            hovertemplate=f"{name}<extra></extra>",
        )
    )
    layout = frame_layout({"height": 440, "narrow": 420}) | {
        "xaxis": _axis(said["shift"], {"type": "log", "tickformat": ",", "dtick": 1}),
        "yaxis": _axis(said["error"], {"type": "log", "exponentformat": "power", "showexponent": "all", "nticks": 8}),
        "legend": _LEGEND,
    }
    return go.Figure(traces, layout).to_json()
