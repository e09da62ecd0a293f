"""Pictures of what a run expected: the prompt coloured by surprise, its surprisal by position, one token followed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viz.labels import plotly_text, shorten, tick_text, visible
from viz.theme import HUES, RAMPS, frame_layout, scales

COLOURS = ("surprisal", "rank", "entropy")  # what the text can be coloured by
FOLLOWED = ("probability", "logit", "rank")  # what can be drawn of a token that is followed
_MAX_TICKS = 32  # tokens named on an axis; of more, positions are
_MARKED = 128  # points of a line that are drawn as dots, too


@dataclass(frozen=True, eq=False)
class Scored:
    """How expected tokens 1 .. T - 1 were, each seen from the position before it. All float64 [T - 1]"""

    bits: np.ndarray  # surprisal
    rank: np.ndarray
    share: np.ndarray  # probability
    entropy: np.ndarray  # bits, of the prediction that the token is one outcome of


def scored(log_share: np.ndarray, rank: np.ndarray, entropy: np.ndarray) -> Scored:
    """From natural logarithms of probability [T - 1], ranks [T - 1] and entropies in nats [T]."""
    nat = math.log(2)  # nats in a bit
    return Scored(-log_share / nat + 0.0, rank.astype(np.float64), np.exp(log_share), entropy[:-1] / nat)


def blind(V: int) -> float:
    """The surprisal of every token where all V are equally likely, in bits: the end of the colour ramp."""
    return math.log2(V)


def places(told: Scored, by: str, V: int) -> list[float | None]:
    """Where on the ramp each token of the prompt is, 0 to 1; None for the first, which is not scored. [T]"""
    values = {"surprisal": told.bits, "rank": np.log2(told.rank), "entropy": told.entropy}[by]
    return [None, *np.clip(values / blind(V), 0, 1).round(4).tolist()]


def ramp_ticks(by: str, V: int) -> list[list]:
    """[place on the ramp, label], from likeliest to a blind guess."""
    top = blind(V)
    if by == "rank":
        powers = [10**n for n in range(1, 1 + math.floor(math.log10(V / 2)))]
        return [[math.log2(each) / top, f"{each // 1000}k" if each >= 1000 else f"{each}"] for each in (1, *powers, V)]
    step = 4 if top > 8 else 2
    within = np.arange(0, top - step / 2, step).tolist()
    last = f"{top:.1f}" if by == "entropy" else f"≥ {top:.1f}"
    return [*([each / top, f"{each:g}"] for each in within), [1, last]]


def text_rows(told: Scored, pieces: Sequence[str]) -> dict:
    """The prompt's tokens with their numbers; numbers start with the second token."""
    return {
        "tokens": [visible(piece) for piece in pieces],
        "breaks": [[i, min(piece.count("\n"), 2)] for i, piece in enumerate(pieces) if "\n" in piece],
        "bits": told.bits.round(3).tolist(),
        "rank": told.rank.astype(int).tolist(),
        "share": [percent(share) for share in told.share.tolist()],
        "entropy": told.entropy.round(3).tolist(),
    }


def percent(share: float) -> str:
    """A probability as a person reads it."""
    points = 100 * share
    return f"{points:.{'1f' if points >= 10 else '2f' if points >= 1 else '2g'}} %"


def brief(value: float | None) -> str:
    """A number in about four digits; "–" where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ramps() -> dict[str, list[str]]:
    """The colours of the text, light and dark."""
    return {name: list(stops) for name, stops in RAMPS.items()}


def bits_figure(told: Scored, pieces: Sequence[str], V: int, words: Mapping[str, str]) -> str:
    """Surprisal of tokens 1 .. T - 1 as bars, and the entropy of the prediction before each as a line; JSON.

    Words: surprisal, entropy, axis_token, axis_bits, hover with {token}, {position}, {bits}, {rank}, {share}.
    """
    T = len(pieces)
    at, names = list(range(1, T)), [plotly_text(shorten(visible(piece), 40)) for piece in pieces[1:]]
    picks = [{"tokens": [n]} for n in at]
    numbers = zip(at, names, told.bits, told.rank, told.share.tolist(), strict=True)
    hover = [
        _hover(
            words["hover"],
            {"token": name, "position": n, "bits": f"{bits:.3g}", "rank": f"{rank:,.0f}", "share": percent(share)},
        )
        for n, name, bits, rank, share in numbers
    ]
    bar = {
        "type": "bar",
        "name": plotly_text(words["surprisal"]),
        "x": at,
        "y": told.bits.tolist(),
        "text": names,
        "textposition": "none",
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": picks,
        "showlegend": False,
        "marker": {
            "color": told.bits.tolist(),
            "coloraxis": "coloraxis",
            "line": {"color": "rgba(128,128,128,0.6)", "width": 0.5 if T <= _MARKED else 0},
        },
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers" if T <= _MARKED else "lines",
        "name": plotly_text(words["entropy"]),
        "x": at,
        "y": told.entropy.tolist(),
        "text": names,
        "customdata": picks,
        "hovertemplate": f"{plotly_text(words['entropy'])}: %{{y:.3g}}<extra></extra>",
        "line": {"color": HUES[4], "width": 2 if T <= _MARKED else 1},
        "marker": {"size": 6},
    }
    found = scales("size", "linear")
    layout = _layout({"scales": found, "height": 320, "narrow": 300, "places": True}, pieces, words["axis_token"])
    layout |= {
        "yaxis": _axis(words["axis_bits"]) | {"rangemode": "tozero"},
        "coloraxis": {
            "colorscale": found["light"],
            "cmin": 0,
            "cmax": blind(V),
            "colorbar": {
                "thickness": 10,
                "outlinewidth": 0,
                "title": {"text": plotly_text(words["surprisal"]), "side": "right"},
            },
        },
        "bargap": 0.25 if T <= _MARKED else 0,
        "hovermode": "x",
    }
    return json.dumps({"data": [bar, line], "layout": layout}, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, eq=False)
class Line:
    """A token that is followed: its name, and its chances after every position. [T] each"""

    name: str
    token: int
    logit: np.ndarray
    probability: np.ndarray
    rank: np.ndarray


def follow_figure(
    lines: Sequence[Line], measure: str, pieces: Sequence[str], ids: np.ndarray, words: Mapping[str, str]
) -> str:
    """A line a token: one of FOLLOWED after every position, diamonds where the token really comes next; JSON. ids [T]

    Words: axis_after, axis_<measure>, hover with {token}, {position}, {after}, {share}, {logit}, {rank}, {next}; next.
    """
    T = len(pieces)
    names = [plotly_text(shorten(visible(piece), 40)) for piece in pieces]
    data = []
    for n, line in enumerate(lines):
        comes = [*(ids[1:] == line.token).tolist(), False]
        hue, name = HUES[n % len(HUES)], plotly_text(line.name)
        hover = [
            _hover(
                words["hover"],
                {
                    "token": name,
                    "after": names[t],
                    "position": t,
                    "share": percent(share),
                    "rank": f"{rank:,}",
                    "logit": f"{logit:.4g}",
                },
            )
            + (f"<br>{plotly_text(words['next'])}" if comes[t] else "")
            for t, (share, rank, logit) in enumerate(zip(line.probability.tolist(), line.rank, line.logit, strict=True))
        ]
        y, there = getattr(line, measure).tolist(), [t for t in range(T) if comes[t]]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if T <= _MARKED else "lines",
                "name": name,
                "x": list(range(T)),
                "y": y,
                "text": names,
                "hovertext": hover,
                "hovertemplate": "%{hovertext}<extra></extra>",
                "customdata": [{"tokens": [t]} for t in range(T)],
                "line": {"color": hue, "width": 2 if T <= _MARKED else 1.2},
                "marker": {"size": 6},
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": there,
                "y": [y[t] for t in there],
                "hoverinfo": "skip",
                "showlegend": False,
                "marker": {"color": hue, "size": 13, "symbol": "diamond"},
            }
        )
    last = math.log10(max(10, *(int(line.rank.max()) for line in lines)))
    scale = {
        "probability": {"rangemode": "tozero", "tickformat": ".3~p"},
        "rank": {"type": "log", "range": [1.05 * last, -0.05 * last], "dtick": 1},  # the first place at the top
        "logit": {},
    }[measure]
    layout = _layout({"height": 400, "narrow": 340, "places": True}, pieces, words["axis_after"])
    layout |= {"yaxis": _axis(words[f"axis_{measure}"]) | scale, "showlegend": True}
    return json.dumps({"data": data, "layout": layout}, ensure_ascii=False, allow_nan=False)


def _layout(meta: dict, pieces: Sequence[str], across: str) -> dict:
    """What both figures share: the prompt runs across; clicks pick its tokens."""
    T = len(pieces)
    axis = _axis(across) | {"range": [-0.6, T - 0.4]}
    if T <= _MAX_TICKS:
        axis |= {"tickvals": list(range(T)), "ticktext": [tick_text(piece) for piece in pieces]}
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    return frame_layout(meta) | {"xaxis": axis, "legend": legend, "showlegend": True, "hovermode": "closest"}


def _hover(template: str, values: Mapping[str, object]) -> str:
    """A sentence for Plotly, its values escaped already; line breaks as Plotly writes them."""
    return plotly_text(template).replace("\n", "<br>").format(**values)


def _axis(title: str) -> dict:
    return {"title": {"text": plotly_text(title), "standoff": 8}, "automargin": True, "zeroline": False}


def expected_rows(ids: np.ndarray, logits: np.ndarray, shares: np.ndarray, pieces: Sequence[str]) -> list[dict]:
    """The likeliest next tokens of one position as plain values. All [top]"""
    rows = zip(ids.tolist(), pieces, shares.tolist(), logits.tolist(), strict=True)
    return [expected_row(number, piece, n + 1, (share, logit)) for n, (number, piece, share, logit) in enumerate(rows)]


def expected_row(number: int, piece: str, rank: int, chances: tuple[float, float]) -> dict:
    """One of them, or the token that really comes next. Chances: probability and logit."""
    share, logit = chances
    bits = f"{-math.log2(share) + 0.0:.2f}" if share > 0 else "∞"
    return {
        "id": number,
        "text": visible(piece),
        "rank": rank,
        "share": share,
        "percent": percent(share),
        "bits": bits,
        "logit": f"{logit:.3f}",
    }
