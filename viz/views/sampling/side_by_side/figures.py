"""Values from which the page draws texts side by side: tokens with alternatives, color scales, and a line figure."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.charts.ramp import blind, ramp_ticks, ramps
from viz.labels import visible
from viz.numbers import plain, whole
from viz.theme import HUES

COLORS = ("probability", "surprisal", "rank", "entropy")  # quantities by which a text can be colored
_HEIGHT = 260  # height of the figure in pixels


class Token(Protocol):
    """A generated token with its numbers: model.generation.decoder.GeneratedToken."""

    id: int
    log_probability: float
    rank: int
    entropy: float
    probability: float
    kept: int
    uniform: float
    top: tuple[tuple[int, float, float], ...]
    fit: Any  # what a rule said, model.sampling.fits.Fit; None without a rule


def record(token: Token) -> list:
    """Pack a token: [id, ln p, rank, entropy in nats, p after the warps, remaining tokens, random number, top].

    The number of remaining tokens counts those that the warps keep. `top` is a flat list of id, p and p after the warps
    for each alternative. With a rule, another entry follows: [forbidden probability, allowed tokens, whether the text
    may end, forced text, characters that may come, [id, p, ...] of the likeliest forbidden tokens].
    """
    top = [value for id, p, after in token.top for value in (id, plain(p), plain(after))]
    log, chance, luck = plain(token.log_probability), plain(token.probability), plain(token.uniform)
    packed = [token.id, log, int(token.rank), plain(token.entropy), chance, int(token.kept), luck, top]
    if (fit := token.fit) is None:
        return packed
    likeliest = [value for id, p in fit.likeliest for value in (id, plain(p))]
    said = [plain(fit.forbidden), fit.allowed, fit.may_end, visible(fit.forced) if fit.forced else "", fit.instead]
    return [*packed, [*said, likeliest]]


def ids_of(records: Iterable[list]) -> list[int]:
    """Collect the ids of all tokens in the records, alternatives and forbidden ones included."""
    return [
        number for each in records for number in (each[0], *each[7][::3], *(each[8][5][::2] if len(each) > 8 else ()))
    ]


def shown(piece: str) -> str | list:
    """Format a token's string for the page: the string alone, or [string, line breaks] if it contains any."""
    breaks = min(piece.count("\n"), 2)
    return [visible(piece), breaks] if breaks else visible(piece)


def scales(V: int) -> dict:
    """Build the color scales: ticks [position, label] for each quantity; `top` is the upper end, in bits, of the
    logarithmic ones.
    """
    ticks = {name: ramp_ticks(name, V) for name in COLORS if name != "probability"}
    share = [[each / 4, f"{whole(25 * each)}%"] for each in range(5)]
    return {"ticks": {"probability": share} | ticks, "top": blind(V), "ramps": ramps(), "hues": list(HUES)}


def blank_figure(words: Mapping[str, str]) -> go.Figure:
    """Build the figure of entropy by token without lines, which the page adds. `words`: axis_token, axis_entropy."""
    x = axis(words["axis_token"], {"showgrid": False})
    y = axis(words["axis_entropy"], {"rangemode": "tozero"})
    return figure([], x, y, height=_HEIGHT, more={"hovermode": "closest"})
