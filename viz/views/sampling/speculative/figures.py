"""Speculative decoding for the page: rounds as records, and figures of time, tokens a call and the choice of gamma."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import plotly.graph_objects as go

from viz.labels import plotly_text, visible
from viz.theme import HUES, frame_layout

DRAFT, CHECK, PLAIN = HUES[1], HUES[0], HUES[7]
HEIGHT = 300
_AXIS = {"automargin": True, "zeroline": False, "fixedrange": True}
_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}


class Proposal(Protocol):
    """model.generation.speculative.Proposal"""

    id: int
    p: float
    q: float
    expected: float
    uniform: float
    fate: str


class Round(Protocol):
    """model.generation.speculative.Round"""

    proposals: tuple[Proposal, ...]
    token: int | None
    kind: str
    chance: float
    uniform: float
    draft_seconds: float
    target_seconds: float


def short(value: float) -> float | None:
    """A number with six digits; None where there is none, which JSON has no sign for."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def records(rounds: Iterable[Round], piece: Callable[[int], str]) -> list[dict]:
    """Every round as the page reads it: proposals [text, id, p, q, sum min(p, q), u, fate], token, milliseconds."""
    found = []
    for each in rounds:
        proposals = [
            [visible(piece(one.id)), one.id, *map(short, (one.p, one.q, one.expected, one.uniform)), one.fate]
            for one in each.proposals
        ]
        token = None
        if each.token is not None:
            token = [visible(piece(each.token)), each.token, short(each.chance), short(each.uniform), each.kind]
        milliseconds = [short(1000 * each.draft_seconds), short(1000 * each.target_seconds)]
        found.append({"proposals": proposals, "token": token, "milliseconds": milliseconds})
    return found


def times_figure(plain: float, draft: float, check: float, said: Mapping[str, str]) -> go.Figure:
    """Milliseconds a token, without a draft and with one: its own share and that of the checks, one behind the other.

    `said`: "plain", "speculative", "one_by_one", "drafting", "checking", "ms".
    """
    rows = [plotly_text(said["speculative"]), plotly_text(said["plain"])]  # drawn from below
    bars = (
        (said["one_by_one"], PLAIN, [0, plain]),
        (said["drafting"], DRAFT, [draft, 0]),
        (said["checking"], CHECK, [check, 0]),
    )
    traces = [
        go.Bar(
            x=[1000 * value or None for value in values],
            y=rows,
            orientation="h",
            name=plotly_text(name),
            marker={"color": colour, "pattern": {"shape": "/" if colour == DRAFT else "", "fgopacity": 0.6}},
            hovertemplate=f"{plotly_text(name)}: %{{x:.3g}} ms<extra></extra>",
            width=0.55,
        )
        for name, colour, values in bars
    ]
    totals = [1000 * (draft + check), 1000 * plain]
    traces.append(
        go.Scatter(
            x=totals,
            y=rows,
            mode="text",
            text=[f" {value:.3g} ms" for value in totals],
            hoverinfo="skip",
            textposition="middle right",
            showlegend=False,
            cliponaxis=False,
        )
    )
    layout = frame_layout({"height": 190, "narrow": 210}) | {
        "barmode": "stack",
        "legend": _LEGEND | {"traceorder": "normal"},
        "xaxis": _AXIS | {"title": {"text": plotly_text(said["ms"]), "standoff": 8}, "range": [0, 1.18 * max(totals)]},
        "yaxis": _AXIS | {"showgrid": False},
    }
    return go.Figure(traces, layout)


def expected_calls(acceptance: float, drafted: Sequence[int]) -> list[float]:
    """How many calls write 1, 2 ... tokens where each proposal is accepted with the same chance by itself.

    drafted: the number of proposals of each call. P(k + 1 tokens) = a^k (1 - a), and a^g for all g and one more:
    what eq. 1 of Leviathan et al. 2023 is the mean of. The sum is the number of calls.
    """
    counts = [0.0] * (max(drafted, default=0) + 1)
    for g in drafted:
        for k in range(g):
            counts[k] += acceptance**k * (1 - acceptance)
        counts[g] += acceptance**g
    return counts


def calls_figure(written: Sequence[int], expected: Sequence[float], said: Mapping[str, str]) -> go.Figure:
    """How many calls wrote 1, 2 ... tokens, beside what is expected.

    written: tokens of each call; expected as of `expected_calls`; `said`: "measured", "predicted", "tokens", "calls".
    """
    places = list(range(1, max(len(expected), max(written, default=1)) + 1))
    counts = [sum(each == place for each in written) for place in places]
    guessed = [*expected, *[0.0] * (len(places) - len(expected))]
    hover = f"{plotly_text(said['tokens'])} %{{x}}: %{{y:.3g}} {plotly_text(said['calls'])}<extra></extra>"
    traces = [
        go.Bar(
            x=places,
            y=counts,
            name=plotly_text(said["measured"]),
            marker={"color": CHECK},
            hovertemplate=hover,
            width=0.6,
        ),
        go.Scatter(
            x=places,
            y=guessed,
            name=plotly_text(said["predicted"]),
            mode="lines+markers",
            hovertemplate=hover,
            line={"color": DRAFT, "width": 2, "dash": "dot"},
            marker={"color": DRAFT, "size": 9, "symbol": "diamond"},
        ),
    ]
    layout = frame_layout({"height": HEIGHT, "narrow": HEIGHT}) | {
        "xaxis": _AXIS | {"title": {"text": plotly_text(said["tokens"]), "standoff": 8}, "dtick": 1},
        "yaxis": _AXIS
        | {
            "title": {"text": plotly_text(said["calls"]), "standoff": 8},
            "rangemode": "tozero",
            "tickformat": ",d" if max(counts, default=0) > 4 else "",
        },
        "legend": _LEGEND,
    }
    return go.Figure(traces, layout)


def sweep_figure(
    rows: Sequence[tuple[int, float, float]], measured: tuple[int, float], said: Mapping[str, str]
) -> go.Figure:
    """Speed-up by gamma, as predicted twice, and the point that was measured; 1 is as fast as plain decoding.

    rows: (gamma, by theorem 3.8, with what checking costs here). `said`: "theorem", "costs", "measured", "gamma",
    "speed".
    """
    gammas = [row[0] for row in rows]
    lines = ((said["theorem"], DRAFT, "dash", 1), (said["costs"], CHECK, "solid", 2))
    traces = [
        go.Scatter(
            x=gammas,
            y=[None if math.isnan(row[column]) else row[column] for row in rows],
            name=plotly_text(name),
            mode="lines+markers",
            line={"color": colour, "width": 2, "dash": dash},
            marker={"size": 5},
            hovertemplate=f"%{{x}}: %{{y:.3f}}<extra>{plotly_text(name)}</extra>",
        )
        for name, colour, dash, column in lines
    ]
    traces.append(
        go.Scatter(
            x=[measured[0]],
            y=[measured[1]],
            name=plotly_text(said["measured"]),
            mode="markers",
            marker={"symbol": "star", "size": 15, "color": HUES[4], "line": {"width": 1, "color": "#ffffff"}},
            hovertemplate=f"%{{x}}: %{{y:.3f}}<extra>{plotly_text(said['measured'])}</extra>",
        )
    )
    even = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": "y",
        "y0": 1,
        "y1": 1,
        "line": {"color": PLAIN, "width": 1.5, "dash": "dot"},
    }
    layout = frame_layout({"height": HEIGHT, "narrow": HEIGHT, "shapes": [even]}) | {
        "xaxis": _AXIS | {"title": {"text": plotly_text(said["gamma"]), "standoff": 8}, "dtick": 1},
        "yaxis": _AXIS | {"title": {"text": plotly_text(said["speed"]), "standoff": 8}, "rangemode": "tozero"},
        "legend": _LEGEND,
        "hovermode": "closest",
    }
    return go.Figure(traces, layout)
