"""One position's logits through a pipeline: what each stage leaves, as rows, bars and a curve."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import BLUE, GRAY, LEGEND, ORANGE, axis, figure, row_axis, row_tick
from viz.charts.lines import HOVER_TEXT, line, rows
from viz.labels import plotly_text, shorten, visible
from viz.numbers import BIT, bits, decimals, number, percent, whole
from viz.theme import HUES

BARS = 30  # tokens drawn as bars
_POINTS = 240  # of a curve
_PALE = "rgba(128,134,150,0.55)"


class StageReport(Protocol):
    """A stage in numbers."""

    kept: int  # tokens that are in
    removed: float  # what the tokens that the step dropped had before it, 0 to 1
    entropy: float  # nats
    effective: float  # exp(entropy)


@dataclass(frozen=True, eq=False)
class Stages:
    """The vocabulary after every stage. Stage 0 is the model's own, stage i what step i left."""

    logits: np.ndarray  # float32 [S + 1, V], -inf for a token that is out
    probabilities: np.ndarray  # float64 [S + 1, V]
    reports: tuple[StageReport, ...]  # of every stage in numbers, as model.sampling.Shaped.report gives them [S + 1]
    out: np.ndarray  # the step that dropped a token, counted from 1; 0 for one that is in [V]
    order: np.ndarray  # ids, the model's likeliest first, ties broken by the smaller id [V]

    @property
    def ranks(self) -> np.ndarray:
        """A token's place in the model's own order, from 1. [V]"""
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(1, len(self.order) + 1)
        return ranks


def stages_of(
    logits: np.ndarray, probabilities: np.ndarray, reports: Sequence[StageReport], order: np.ndarray
) -> Stages:
    """From what the stages are, [S + 1, V], and the order of stage 0 [V]."""
    left = np.isfinite(logits)
    dropped = left[:-1] & ~left[1:]
    out = (dropped * np.arange(1, len(logits))[:, None]).max(0, initial=0)
    return Stages(logits, probabilities, tuple(reports), out, order)


def place(logits: np.ndarray, token: int) -> int | None:
    """Return a token's rank among those that are in, ties broken by the smaller id; None for one that is out. [V]"""
    logit = logits[token]
    if not np.isfinite(logit):
        return None
    return 1 + int((logits > logit).sum()) + int((logits[:token] == logit).sum())


def surprisal(share: float) -> str:
    """Return the surprisal of a probability, in bits."""
    return decimals(-math.log2(share)) if share > 0 else "∞"


# --- every step ---


def step_rows(stages: Stages, names: Sequence[str], kinds: Sequence[str]) -> list[list]:
    """Return a row a stage: its name, tokens left with a bar, mass removed, entropy in bits, effective choices."""
    largest = math.log(max(stages.reports[0].kept, 2))
    return [
        [
            name,
            {
                "text": whole(each.kept),
                "bars": [{"to": math.log(max(each.kept, 1)) / largest, "look": f"pg-shape-{kind}"}],
            },
            percent(each.removed) if n else "",
            bits(each.entropy / BIT),
            number(each.effective),
        ]
        for n, (each, name, kind) in enumerate(zip(stages.reports, names, kinds, strict=True))
    ]


# --- the likeliest tokens ---


def shown_tokens(stages: Stages, stage: int, following: int | None, limit: int = BARS) -> list[int]:
    """Return the likeliest tokens before or after, in the model's order; at the end the one that really comes next."""
    after = np.argsort(-stages.probabilities[stage], kind="stable")[:limit]
    after = after[stages.probabilities[stage][after] > 0]
    best: dict[int, int] = {int(token): n for n, token in enumerate(stages.order[:limit])}
    for n, token in enumerate(after.tolist()):
        best[token] = min(best.get(token, n), n)
    chosen = sorted(best, key=lambda token: (best[token], token))[:limit]
    if following is not None and following not in chosen:
        chosen.append(following)
    ranks = stages.ranks
    return sorted(chosen, key=lambda token: ranks[token])


@dataclass(frozen=True, eq=False)
class Shown:
    """The tokens that are drawn as bars."""

    tokens: Sequence[int]
    pieces: Sequence[str]  # their texts
    stage: int  # the one that is compared with the model's own
    following: int | None  # the token that really comes next
    logarithmic: bool


def bars_figure(stages: Stages, shown: Shown, words: Mapping[str, str], drops: Sequence[str]) -> go.Figure:
    """Return the model's probabilities as pale bars, hollow for tokens that are out, and within them those after.

    drops: what step i is called, from the first. Words: before, after, out, next, axis, hover with {token}, {id},
    {rank}, {before}, {after}, dropped with {step}.
    """
    ids, ranks = list(shown.tokens), stages.ranks
    before, after = stages.probabilities[0][ids], stages.probabilities[shown.stage][ids]
    fate = [int(step) if 0 < step <= shown.stage else 0 for step in stages.out[ids]]
    names, hovers = [], []
    for n, (token, piece) in enumerate(zip(ids, shown.pieces, strict=True)):
        names.append(plotly_text(f"{ranks[token]} {shorten(visible(piece), 40)}"))
        shares = {"before": percent(before[n]), "after": percent(after[n])}
        values = {"token": visible(piece), "id": token, "rank": whole(ranks[token]), **shares}
        hovers.append(_hover(words, drops, values, fate[n]))
    remaining, lost = [n for n in range(len(ids)) if not fate[n]], [n for n in range(len(ids)) if fate[n]]

    def bar(at: Sequence[int], values: np.ndarray, name: str, color: str, more: Mapping[str, object]) -> go.Bar:
        texts = [hovers[n] for n in at]
        return rows(words[name], [names[n] for n in at], values[list(at)], color, hovers=texts, more=more)

    hollow = {"width": 0.82, "marker": {"color": "rgba(0,0,0,0)", "line": {"color": _PALE, "width": 1.2}}}
    traces: list[go.Bar | go.Scatter] = [
        bar(remaining, before, "before", _PALE, {"width": 0.82}),
        bar(lost, before, "out", _PALE, hollow),
        bar(remaining, after, "after", BLUE, {"width": 0.42}),
    ]
    if shown.following is not None:
        n = ids.index(shown.following)
        traces.append(_diamond(words["next"], names[n], float(max(before[n], after[n])), hovers[n]))
    ticks = [row_tick(piece, token == shown.following) for token, piece in zip(ids, shown.pieces, strict=True)]
    across = axis(words["axis"], _share_axis(before, after, shown.logarithmic))
    more = {"barmode": "overlay", "hovermode": "closest", "showlegend": True, "legend": _legend()}
    size = {"height": 90 + 17 * len(ids), "narrow": 110 + 17 * len(ids)}
    return figure(traces, across, row_axis(names, ticks), more=more, **size)


def _diamond(name: str, y: str, x: float, hover: str) -> go.Scatter:
    """Return a mark at the token that really comes next."""
    more = {
        "mode": "markers",
        "y": [y],
        "marker": {"symbol": "diamond", "size": 11, "color": ORANGE, "line": {"color": "#fff", "width": 1}},
        "hovertext": [hover],
        "hovertemplate": HOVER_TEXT,
        "cliponaxis": False,
    }
    return line(name, [x], [0], ORANGE, hover="", more=more)


def _share_axis(before: np.ndarray, after: np.ndarray, logarithmic: bool) -> dict:
    """Return the range of an axis of probabilities; 0 has no place on a logarithmic one."""
    high = max(float(before.max()), float(after.max()))
    if not logarithmic:
        return {"tickformat": ".3~p", "range": [0, high * 1.06]}
    low = min(float(values[values > 0].min()) for values in (before, after) if (values > 0).any())
    span = [math.floor(math.log10(low)), math.log10(high) + 0.05]
    return {"type": "log", "range": span, "tickformat": ".0e", "dtick": 1}


def _hover(words: Mapping[str, str], drops: Sequence[str], values: Mapping[str, object], fate: int) -> str:
    """Return the hover text of a token's bar."""
    escaped = {name: plotly_text(shorten(str(value), 40)) for name, value in values.items()}
    text = plotly_text(words["hover"]).replace("\n", "<br>").format(**escaped)
    if fate:
        text += "<br>" + plotly_text(words["dropped"].format(step=drops[fate - 1]))
    return text


# --- the cumulative curve ---


@dataclass(frozen=True)
class Cut:
    """A step that cuts, on the curve of its input: how many tokens it left, and up to which mass."""

    stage: int  # its input stage
    name: str
    reach: float | None = None  # the mass of top-p


def curve_figure(stages: Stages, cuts: Sequence[Cut], words: Mapping[str, str]) -> go.Figure:
    """Return the tokens by rank against their probability together, before and after, with a line where each step cuts.

    Words: before, after, given with {step}, rank, mass, hover with {n}, {mass}, {name}.
    """
    last, V = len(stages.logits) - 1, stages.logits.shape[1]
    between = {cut.stage: cut.name for cut in cuts if cut.reach is not None and 0 < cut.stage < last}
    traces = [_curve(stages.probabilities[0], words["before"], words, (GRAY, 3, "solid"))]
    for stage, name in between.items():
        condition = words["given"].format(step=name)
        traces.append(_curve(stages.probabilities[stage], condition, words, (HUES[2], 1.5, "dot"), legend=False))
    if last:
        traces.append(_curve(stages.probabilities[last], words["after"], words, (BLUE, 2.5, "solid")))
    for n, cut in enumerate(cuts):
        count, hue = stages.reports[cut.stage + 1].kept, HUES[(1, 3, 5)[n % 3]]
        mass = float(np.sort(stages.probabilities[cut.stage])[::-1][:count].sum())
        x, y = ([1, count, count], [cut.reach, cut.reach, 0]) if cut.reach is not None else ([count, count], [mass, 0])
        more = {
            "marker": {"size": [0] * (len(x) - 2) + [8, 0], "color": hue},
            "hovertext": [_mass(words, cut.name, count, mass)] * len(x),
            "hovertemplate": HOVER_TEXT,
        }
        traces.append(line(cut.name, x, y, hue, hover="", dash="dash", width=1.8, more=more))
    across = axis(words["rank"], {"type": "log", "range": [-0.03, math.log10(V) + 0.02], "dtick": 1})
    up = axis(words["mass"], {"range": [0, 1.03], "tickformat": ".0%"})
    more = {"hovermode": "closest", "showlegend": True, "legend": _legend()}
    return figure(traces, across, up, height=400, narrow=340, more=more)


def _curve(
    probabilities: np.ndarray,
    name: str,
    words: Mapping[str, str],
    look: tuple[str, float, str],
    legend: bool = True,
) -> go.Scatter:
    """Return the probability of the n likeliest together, at ranks that are even on a logarithmic axis. `look`: of a
    line.
    """
    mass = np.cumsum(np.sort(probabilities)[::-1])
    count = int((probabilities > 0).sum())
    ranks = np.unique(np.geomspace(1, count, _POINTS).round().astype(int)).tolist()
    shares = np.minimum(mass[np.array(ranks) - 1], 1.0).tolist()
    hovers = [_mass(words, name, n, share) for n, share in zip(ranks, shares, strict=True)]
    more = {"mode": "lines", "hovertext": hovers, "hovertemplate": HOVER_TEXT, "showlegend": legend}
    color, width, dash = look
    return line(name, ranks, shares, color, hover="", dash=dash, width=width, more=more)


def _mass(words: Mapping[str, str], name: str, n: int, mass: float) -> str:
    """Return the hover text of a point: what the n likeliest tokens hold."""
    return plotly_text(words["hover"].format(n=whole(n), mass=percent(mass), name=name))


def _legend() -> dict:
    return LEGEND | {"y": 1.01, "traceorder": "normal"}
