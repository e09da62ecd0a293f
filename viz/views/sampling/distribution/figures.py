"""One position's logits through a pipeline: what each stage leaves, as numbers, bars, a curve and a table."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from viz.labels import plotly_text, shorten, visible
from viz.theme import HUES, frame_layout
from viz.views.predictions.figures import brief, percent

BARS = 30  # tokens drawn as bars
PAGE = 50  # rows of a page of the table
_POINTS = 240  # of a curve
GREY, BLUE, ORANGE = "rgba(128,134,150,0.55)", HUES[0], HUES[4]


class StageReport(Protocol):
    """A stage in numbers."""

    kept: int  # tokens that are in
    removed: float  # what the tokens that the step dropped had before it, 0 to 1
    entropy: float  # nats
    effective: float  # exp(entropy)


@dataclass(frozen=True, eq=False)
class Stages:
    """What every stage makes of the vocabulary. Stage 0 is the model's own, stage i what step i left."""

    logits: np.ndarray  # float32 [S + 1, V], -inf for a token that is out
    probabilities: np.ndarray  # float64 [S + 1, V]
    reports: Sequence[StageReport]  # of every stage in numbers, as model.sampling.Shaped.report gives them [S + 1]
    out: np.ndarray  # the step that dropped a token, counted from 1; 0 for one that is in [V]
    order: np.ndarray  # ids, the model's likeliest first, of equals the smaller id first [V]

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
    return Stages(logits, probabilities, reports, out, order)


def place(logits: np.ndarray, token: int) -> int | None:
    """A token's rank among those that are in, of equals the smaller id first; None for one that is out. [V]"""
    own = logits[token]
    if not np.isfinite(own):
        return None
    return 1 + int((logits > own).sum()) + int((logits[:token] == own).sum())


def bits(share: float) -> str:
    """The surprisal of a probability, in bits."""
    return f"{-math.log2(share) + 0.0:.2f}" if share > 0 else "∞"


# --- every step ---


def step_rows(found: Stages) -> list[dict]:
    """A row a stage: tokens left and the length of their bar, mass removed, entropy, effective choices."""
    whole = math.log(max(found.reports[0].kept, 2))
    return [
        {
            "kept": f"{each.kept:,}",
            "share": math.log(each.kept) / whole if each.kept > 1 else 0.0,
            "removed": percent(each.removed) if n else "",
            "entropy": f"{each.entropy:.3f}",
            "choices": brief(each.effective),
        }
        for n, each in enumerate(found.reports)
    ]


# --- the likeliest tokens ---


def shown_tokens(found: Stages, stage: int, following: int | None, most: int = BARS) -> list[int]:
    """The likeliest tokens before or after, in the model's order; at the end the one that really comes next."""
    after = np.argsort(-found.probabilities[stage], kind="stable")[:most]
    after = after[found.probabilities[stage][after] > 0]
    best: dict[int, int] = {int(token): n for n, token in enumerate(found.order[:most])}
    for n, token in enumerate(after.tolist()):
        best[token] = min(best.get(token, n), n)
    chosen = sorted(best, key=lambda token: (best[token], token))[:most]
    if following is not None and following not in chosen:
        chosen.append(following)
    ranks = found.ranks
    return sorted(chosen, key=lambda token: ranks[token])


@dataclass(frozen=True, eq=False)
class Shown:
    """What is drawn as bars."""

    tokens: Sequence[int]
    pieces: Sequence[str]  # their texts
    stage: int  # the one that is compared with the model's own
    following: int | None  # the token that really comes next
    logarithmic: bool


def bars_figure(found: Stages, shown: Shown, words: Mapping[str, str], drops: Sequence[str]) -> str:
    """The model's probabilities as pale bars, hollow for tokens that are out, and within them those after; JSON.

    drops: what step i is called, from the first. Words: before, after, out, next, axis, hover with {token}, {id},
    {rank}, {before}, {after}, dropped with {step}.
    """
    ids, ranks = list(shown.tokens), found.ranks
    before, after = found.probabilities[0][ids], found.probabilities[shown.stage][ids]
    fate = [int(step) if 0 < step <= shown.stage else 0 for step in found.out[ids]]
    names = [
        plotly_text(f"{ranks[token]} {shorten(visible(piece), 40)}")
        for token, piece in zip(ids, shown.pieces, strict=True)
    ]
    hover = [
        _told(
            words,
            drops,
            {
                "token": visible(piece),
                "id": token,
                "rank": f"{ranks[token]:,}",
                "before": percent(float(before[n])),
                "after": percent(float(after[n])),
            },
            fate[n],
        )
        for n, (token, piece) in enumerate(zip(ids, shown.pieces, strict=True))
    ]
    common = {"type": "bar", "orientation": "h", "y": names, "hovertemplate": "%{hovertext}<extra></extra>"}
    kept, lost = [n for n in range(len(ids)) if not fate[n]], [n for n in range(len(ids)) if fate[n]]

    def bar(rows: list[int], values: np.ndarray, name: str, marker: dict, width: float) -> dict:
        return common | {
            "x": [float(values[n]) for n in rows],
            "y": [names[n] for n in rows],
            "name": plotly_text(name),
            "hovertext": [hover[n] for n in rows],
            "marker": marker,
            "width": width,
        }

    data = [
        bar(kept, before, words["before"], {"color": GREY}, 0.82),
        bar(lost, before, words["out"], {"color": "rgba(0,0,0,0)", "line": {"color": GREY, "width": 1.2}}, 0.82),
        bar(kept, after, words["after"], {"color": BLUE}, 0.42),
    ]
    if shown.following is not None:
        n = ids.index(shown.following)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [float(max(before[n], after[n]))],
                "y": [names[n]],
                "name": plotly_text(words["next"]),
                "hovertext": [hover[n]],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "marker": {"symbol": "diamond", "size": 11, "color": ORANGE, "line": {"color": "#fff", "width": 1}},
                "cliponaxis": False,
            }
        )
    ticks = [_tick(piece, token == shown.following) for token, piece in zip(ids, shown.pieces, strict=True)]
    high = max(float(before.max()), float(after.max()))
    across = {"tickformat": ".3~p", "range": [0, high * 1.06]}
    if shown.logarithmic:
        low = min(float(values[values > 0].min()) for values in (before, after) if (values > 0).any())
        across = {
            "type": "log",
            "range": [math.floor(math.log10(low)), math.log10(high) + 0.05],
            "tickformat": ".0e",
            "dtick": 1,
        }
    layout = frame_layout({"height": 90 + 17 * len(ids), "narrow": 110 + 17 * len(ids)}) | {
        "xaxis": _axis(words["axis"]) | across,
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names[::-1],
            "tickvals": names,
            "ticktext": ticks,
            "automargin": True,
            "showgrid": False,
            "tickfont": {"size": 11},
            "range": [-0.7, len(ids) - 0.3],
        },
        "barmode": "overlay",
        "hovermode": "closest",
        "showlegend": True,
        "legend": _legend(),
    }
    return _json(data, layout)


def _told(words: Mapping[str, str], drops: Sequence[str], values: dict, fate: int) -> str:
    """What is told of a token where one points at its bar."""
    escaped = {name: plotly_text(shorten(str(value), 40)) for name, value in values.items()}
    text = plotly_text(words["hover"]).replace("\n", "<br>").format(**escaped)
    if fate:
        text += "<br>" + plotly_text(words["dropped"].format(step=drops[fate - 1]))
    return text


def _tick(piece: str, comes: bool) -> str:
    text = plotly_text(shorten(visible(piece)))
    return f"<b>◆ {text}</b>" if comes else text


# --- the cumulative curve ---


@dataclass(frozen=True)
class Cut:
    """A step that cuts, on the curve of what it was given: how many tokens it left, and up to which mass."""

    stage: int  # the stage it was given
    name: str
    reach: float | None = None  # the mass that top-p asks for


def curve_figure(found: Stages, cuts: Sequence[Cut], words: Mapping[str, str]) -> str:
    """Tokens by rank against their probability together, before and after, with a line where each step cuts; JSON.

    Words: before, after, given with {step}, axis_rank, axis_mass, hover_curve with {n}, {mass}, {name}.
    """
    last, V = len(found.logits) - 1, found.logits.shape[1]
    drawn = [(0, words["before"], {"color": "rgba(128,134,150,0.9)", "width": 3})]
    between = {cut.stage: cut.name for cut in cuts if cut.reach is not None and 0 < cut.stage < last}
    drawn += [
        (stage, words["given"].format(step=name), {"color": HUES[2], "width": 1.5, "dash": "dot"})
        for stage, name in between.items()
    ]
    drawn += [(last, words["after"], {"color": BLUE, "width": 2.5})] if last else []
    data = [
        _curve(found.probabilities[stage], name, line, words) | {"showlegend": stage in (0, last)}
        for stage, name, line in drawn
    ]
    for n, cut in enumerate(cuts):
        kept, hue = found.reports[cut.stage + 1].kept, HUES[(1, 3, 5)[n % 3]]
        mass = float(np.sort(found.probabilities[cut.stage])[::-1][:kept].sum())
        x, y = ([1, kept, kept], [cut.reach, cut.reach, 0]) if cut.reach is not None else ([kept, kept], [mass, 0])
        told = words["hover_curve"].format(n=f"{kept:,}", mass=percent(mass), name=cut.name)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": x,
                "y": y,
                "name": plotly_text(cut.name),
                "line": {"color": hue, "width": 1.8, "dash": "dash"},
                "marker": {"size": [0] * (len(x) - 2) + [8, 0]},
                "hovertext": [plotly_text(told)] * len(x),
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
    layout = frame_layout({"height": 400, "narrow": 340}) | {
        "xaxis": _axis(words["axis_rank"]) | {"type": "log", "range": [-0.03, math.log10(V) + 0.02], "dtick": 1},
        "yaxis": _axis(words["axis_mass"]) | {"range": [0, 1.03], "tickformat": ".0%"},
        "hovermode": "closest",
        "showlegend": True,
        "legend": _legend(),
    }
    return _json(data, layout)


def _curve(probabilities: np.ndarray, name: str, line: dict, words: Mapping[str, str]) -> dict:
    """The probability of the n likeliest together, at ranks that are even on a logarithmic axis."""
    mass = np.cumsum(np.sort(probabilities)[::-1])
    kept = int((probabilities > 0).sum())
    ranks = np.unique(np.geomspace(1, kept, _POINTS).round().astype(int))
    shares = np.minimum(mass[ranks - 1], 1.0)
    hover = [
        plotly_text(words["hover_curve"].format(n=f"{n:,}", mass=percent(share), name=name))
        for n, share in zip(ranks.tolist(), shares.tolist(), strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": ranks.tolist(),
        "y": shares.tolist(),
        "name": plotly_text(name),
        "line": line,
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _axis(title: str) -> dict:
    return {"title": {"text": plotly_text(title), "standoff": 8}, "automargin": True, "zeroline": False}


def _legend() -> dict:
    return {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "traceorder": "normal"}


def _json(data: list[dict], layout: dict) -> str:
    return json.dumps({"data": data, "layout": layout}, ensure_ascii=False, allow_nan=False)
