"""Figures of one position's logits through a pipeline: the stages, the top tokens and the cumulative probability."""

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

BARS = 30  # maximum number of tokens drawn as bars
_POINTS = 240  # maximum number of points per curve
_PALE = "rgba(128,134,150,0.55)"


class StageReport(Protocol):
    """Statistics of the distribution at one stage."""

    kept: int  # number of remaining tokens
    removed: float  # total probability, before the step, of the tokens that it removed
    entropy: float  # in nats
    effective: float  # effective number of choices, exp(entropy)


@dataclass(frozen=True, eq=False)
class Stages:
    """The distribution over the vocabulary at every stage: stage 0 is the model's own, stage i the output of step i.

    S is the number of steps, V the vocabulary size.
    """

    logits: np.ndarray  # float32 [S + 1, V], -inf for a removed token
    probabilities: np.ndarray  # float64 [S + 1, V]
    reports: tuple[StageReport, ...]  # results of model.sampling.Shaped.report [S + 1]
    out: np.ndarray  # number of the step that removed the token, from 1; 0 for a remaining one [V]
    order: np.ndarray  # token ids in decreasing order of the model's probability, ties broken by the smaller id [V]

    @property
    def ranks(self) -> np.ndarray:
        """The rank of each token in the model's own distribution, from 1. [V]"""
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(1, len(self.order) + 1)
        return ranks


def stages_of(
    logits: np.ndarray, probabilities: np.ndarray, reports: Sequence[StageReport], order: np.ndarray
) -> Stages:
    """Build the stages from their logits and probabilities [S + 1, V], their statistics, and the token order of stage 0
    [V].
    """
    kept = np.isfinite(logits)
    removed = kept[:-1] & ~kept[1:]
    out = (removed * np.arange(1, len(logits))[:, None]).max(0, initial=0)
    return Stages(logits, probabilities, tuple(reports), out, order)


def place(logits: np.ndarray, token: int) -> int | None:
    """Return a token's rank, from 1, among the remaining tokens of `logits` [V]; None if it was removed.

    The smaller id ranks first among equal logits.
    """
    logit = logits[token]
    if not np.isfinite(logit):
        return None
    return 1 + int((logits > logit).sum()) + int((logits[:token] == logit).sum())


def surprisal(share: float) -> str:
    """Format the surprisal of a probability in bits."""
    return decimals(-math.log2(share)) if share > 0 else "∞"


# --- stages ---


def step_rows(stages: Stages, names: Sequence[str], kinds: Sequence[str]) -> list[list]:
    """Build one row per stage: name, number of remaining tokens with a bar, removed probability, entropy in bits, and
    effective number of choices.
    """
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


# --- top tokens ---


def shown_tokens(stages: Stages, stage: int, following: int | None, limit: int = BARS) -> list[int]:
    """Select the `limit` tokens that rank highest before the pipeline or at `stage`, plus the actual next token.

    They are returned in decreasing order of the model's own probability.
    """
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
    """The tokens drawn as bars."""

    tokens: Sequence[int]
    pieces: Sequence[str]  # the tokens' strings
    stage: int  # the stage compared with the model's own distribution
    following: int | None  # id of the actual next token
    logarithmic: bool


def bars_figure(stages: Stages, shown: Shown, words: Mapping[str, str], drops: Sequence[str]) -> go.Figure:
    """Draw the model's probabilities as pale bars, hollow for removed tokens, with the selected stage's probabilities
    inside.

    `drops`: the names of the steps. `words`: before, after, out, next, axis, hover with {token}, {id}, {rank},
    {before}, {after}, dropped with {step}.
    """
    ids, ranks = list(shown.tokens), stages.ranks
    before, after = stages.probabilities[0][ids], stages.probabilities[shown.stage][ids]
    removed_by = [int(step) if 0 < step <= shown.stage else 0 for step in stages.out[ids]]
    names, hovers = [], []
    for n, (token, piece) in enumerate(zip(ids, shown.pieces, strict=True)):
        names.append(plotly_text(f"{ranks[token]} {shorten(visible(piece), 40)}"))
        shares = {"before": percent(before[n]), "after": percent(after[n])}
        values = {"token": visible(piece), "id": token, "rank": whole(ranks[token]), **shares}
        hovers.append(_hover(words, drops, values, removed_by[n]))
    remaining = [n for n in range(len(ids)) if not removed_by[n]]
    removed = [n for n in range(len(ids)) if removed_by[n]]

    def bar(indices: Sequence[int], values: np.ndarray, name: str, color: str, more: Mapping[str, object]) -> go.Bar:
        texts = [hovers[n] for n in indices]
        return rows(words[name], [names[n] for n in indices], values[list(indices)], color, hovers=texts, more=more)

    hollow = {"width": 0.82, "marker": {"color": "rgba(0,0,0,0)", "line": {"color": _PALE, "width": 1.2}}}
    traces: list[go.Bar | go.Scatter] = [
        bar(remaining, before, "before", _PALE, {"width": 0.82}),
        bar(removed, before, "out", _PALE, hollow),
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
    """Draw a diamond that marks the actual next token."""
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
    """Build the settings of a probability axis; a logarithmic one starts below the smallest positive probability."""
    high = max(float(before.max()), float(after.max()))
    if not logarithmic:
        return {"tickformat": ".3~p", "range": [0, high * 1.06]}
    low = min(float(values[values > 0].min()) for values in (before, after) if (values > 0).any())
    span = [math.floor(math.log10(low)), math.log10(high) + 0.05]
    return {"type": "log", "range": span, "tickformat": ".0e", "dtick": 1}


def _hover(words: Mapping[str, str], drops: Sequence[str], values: Mapping[str, object], removed_by: int) -> str:
    """Format the hover text of a token's bar. `removed_by`: the number of the step that removed the token, or 0."""
    escaped = {name: plotly_text(shorten(str(value), 40)) for name, value in values.items()}
    text = plotly_text(words["hover"]).replace("\n", "<br>").format(**escaped)
    if removed_by:
        text += "<br>" + plotly_text(words["dropped"].format(step=drops[removed_by - 1]))
    return text


# --- the cumulative curve ---


@dataclass(frozen=True)
class Cut:
    """A step that truncates the distribution, marked on the cumulative curve of its input."""

    stage: int  # the stage of its input
    name: str
    reach: float | None = None  # the probability that top-p keeps; None for other warps


def curve_figure(stages: Stages, cuts: Sequence[Cut], words: Mapping[str, str]) -> go.Figure:
    """Draw the cumulative probability by rank, before and after the pipeline, with a line at the cut of each step.

    `words`: before, after, given with {step}, rank, mass, hover with {n}, {mass}, {name}.
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
    """Draw the total probability of the top n tokens, for ranks n that are evenly spaced on a logarithmic axis.

    `look`: color, width and dash of the line.
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
    """Format the hover text of a point: n and the total probability of the top n tokens."""
    return plotly_text(words["hover"].format(n=whole(n), mass=percent(mass), name=name))


def _legend() -> dict:
    return LEGEND | {"y": 1.01, "traceorder": "normal"}
