"""Speculative decoding for the page: rounds as records, and figures of the time, the tokens per call, and the speed-up
by gamma.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, LEGEND, ORANGE, RED, axis, figure
from viz.charts.lines import bars, line, rows
from viz.labels import plotly_text, visible
from viz.numbers import milliseconds, plain

DRAFT, CHECK, PLAIN, MEASURED = RED, BLUE, GRAY, ORANGE
HEIGHT = 300


class Proposal(Protocol):
    """A token proposed by the draft: model.generation.speculative.Proposal."""

    id: int
    p: float
    q: float
    expected: float
    uniform: float
    fate: str


class Round(Protocol):
    """One forward pass of the target model: model.generation.speculative.Round."""

    proposals: tuple[Proposal, ...]
    token: int | None
    kind: str
    chance: float
    uniform: float
    draft_seconds: float
    target_seconds: float


def records(rounds: Iterable[Round], piece: Callable[[int], str]) -> list[dict]:
    """Pack the rounds for the page, each with its proposals, its own token and its milliseconds.

    A proposal is [text, id, p, q, sum min(p, q), u, fate], a token [text, id, chance, u, kind] or None, and
    milliseconds [draft, model].
    """
    entries = []
    for each in rounds:
        proposals = [
            [visible(piece(one.id)), one.id, *map(plain, (one.p, one.q, one.expected, one.uniform)), one.fate]
            for one in each.proposals
        ]
        token = None
        if each.token is not None:
            token = [visible(piece(each.token)), each.token, plain(each.chance), plain(each.uniform), each.kind]
        times = [plain(1000 * each.draft_seconds), plain(1000 * each.target_seconds)]
        entries.append({"proposals": proposals, "token": token, "milliseconds": times})
    return entries


def times_figure(plain_step: float, draft: float, check: float, words: Mapping[str, str]) -> go.Figure:
    """Draw the milliseconds per token without a draft, and with one as a stack of drafting and verification.

    Times are in seconds; `check` is that of verification. `words`: "plain", "speculative", "one_by_one", "drafting",
    "checking", "ms".
    """
    ways = [plotly_text(words["speculative"]), plotly_text(words["plain"])]  # Plotly draws the first at the bottom
    traces = []
    for name, color, seconds in (
        ("one_by_one", PLAIN, (0.0, plain_step)),
        ("drafting", DRAFT, (draft, 0.0)),
        ("checking", CHECK, (check, 0.0)),
    ):
        label = plotly_text(words[name])
        hovers = [f"{label}: {milliseconds(value)} ms" for value in seconds]
        look = {"color": color, "pattern": {"shape": "/" if name == "drafting" else "", "fgopacity": 0.6}}
        shown = [1000 * value if value else float("nan") for value in seconds]
        traces.append(rows(words[name], ways, shown, color, hovers=hovers, more={"marker": look, "width": 0.55}))
    totals = [draft + check, plain_step]
    traces.append(
        go.Scatter(
            x=[1000 * value for value in totals],
            y=ways,
            mode="text",
            text=[f" {milliseconds(value)} ms" for value in totals],
            hoverinfo="skip",
            textposition="middle right",
            showlegend=False,
            cliponaxis=False,
        )
    )
    x = axis(words["ms"], {"range": [0, 1180 * max(totals)]})
    more = {"barmode": "stack", "legend": LEGEND | {"traceorder": "normal"}}
    return figure(traces, x, axis("", {"showgrid": False}), height=190, narrow=210, more=more)


def expected_calls(acceptance: float, drafted: Sequence[int]) -> list[float]:
    """Compute the expected number of calls that generate 1, 2, ... tokens if each proposal is accepted independently.

    `drafted`: the number of proposals g of each call. With the acceptance probability a, P(k + 1 tokens) = a^k (1 - a)
    for k < g accepted proposals, and a^g for k = g; eq. 1 of Leviathan et al. 2023 is the mean of this distribution.
    The result sums to the number of calls.
    """
    counts = [0.0] * (max(drafted, default=0) + 1)
    for g in drafted:
        for k in range(g):
            counts[k] += acceptance**k * (1 - acceptance)
        counts[g] += acceptance**g
    return counts


def calls_figure(written: Sequence[int], expected: Sequence[float], words: Mapping[str, str]) -> go.Figure:
    """Draw the number of calls that generated 1, 2, ... tokens, beside the expected number.

    `written`: the number of tokens of each call; `expected`: the result of `expected_calls`. `words`: "measured",
    "predicted", "tokens", "calls".
    """
    places = list(range(1, max(len(expected), max(written, default=1)) + 1))
    counts = [sum(each == place for each in written) for place in places]
    padded = [*expected, *[0.0] * (len(places) - len(expected))]
    hover = f"{plotly_text(words['tokens'])} %{{x}}: %{{y:.3g}} {plotly_text(words['calls'])}"
    look = {"mode": "lines+markers", "marker": {"color": DRAFT, "size": 9, "symbol": "diamond"}}
    traces = [
        bars(words["measured"], places, counts, CHECK, hover=hover, more={"width": 0.6}),
        line(words["predicted"], places, padded, DRAFT, hover=hover, dash="dot", more=look),
    ]
    count_axis = {"rangemode": "tozero", "tickformat": ",d" if max(counts, default=0) > 4 else ""}
    return figure(traces, axis(words["tokens"], {"dtick": 1}), axis(words["calls"], count_axis), height=HEIGHT)


def sweep_figure(
    predicted: Sequence[tuple[int, float, float]], measured: tuple[int, float], words: Mapping[str, str]
) -> go.Figure:
    """Draw two predictions of the speed-up as a function of gamma, and the measured point; 1 is the speed of plain
    decoding.

    `predicted`: (gamma, speed-up by theorem 3.8, speed-up with the measured cost of verification). `words`: "theorem",
    "costs", "measured", "gamma", "speed".
    """
    gammas, hover = [row[0] for row in predicted], "%{x}: %{y:.3f}"
    traces = [
        line(words[name], gammas, [row[column] for row in predicted], color, hover=hover, dash=dash)
        for name, color, dash, column in (("theorem", DRAFT, "dash", 1), ("costs", CHECK, "solid", 2))
    ]
    star = {"symbol": "star", "size": 15, "color": MEASURED, "line": {"width": 1, "color": "#ffffff"}}
    look = {"mode": "markers", "marker": star}
    traces.append(line(words["measured"], [measured[0]], [measured[1]], MEASURED, hover=hover, more=look))
    even = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": 1, "y1": 1}
    meta = {"shapes": [even | {"line": {"color": PLAIN, "width": 1.5, "dash": "dot"}}]}
    x, y = axis(words["gamma"], {"dtick": 1}), axis(words["speed"], {"rangemode": "tozero"})
    return figure(traces, x, y, height=HEIGHT, meta=meta, more={"hovermode": "closest"})
