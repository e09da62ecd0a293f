"""Texts side by side as numbers for the page: a token with what else could have stood there, colours, a line figure."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from viz.charts.ramp import blind, ramp_ticks, ramps
from viz.labels import visible
from viz.theme import HUES, frame_layout

COLOURS = ("probability", "surprisal", "rank", "entropy")  # what a text can be coloured by
_HEIGHT = 260  # of the figure, pixels


class Token(Protocol):
    """A token that was written: model.decoders.Made."""

    id: int
    log_probability: float
    rank: int
    entropy: float
    probability: float
    kept: int
    uniform: float
    top: tuple[tuple[int, float, float], ...]


def short(value: float) -> float | None:
    """A number with six digits; None where there is none, which JSON has no sign for."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def record(made: Token) -> list:
    """[id, ln p, rank, entropy in nats, p after the warps, tokens left, random number, [id, p, p after] one by one]."""
    top = [value for id, p, after in made.top for value in (id, short(p), short(after))]
    log, chance, luck = short(made.log_probability), short(made.probability), short(made.uniform)
    return [made.id, log, int(made.rank), short(made.entropy), chance, int(made.kept), luck, top]


def ids_of(records: Iterable[list]) -> list[int]:
    """All tokens that records name."""
    return [number for each in records for number in (each[0], *each[7][::3])]


def shown(piece: str) -> str | list:
    """A token's text as the page draws it, with its line breaks where it has any: text, or [text, breaks]."""
    breaks = min(piece.count("\n"), 2)
    return [visible(piece), breaks] if breaks else visible(piece)


def scales(V: int) -> dict:
    """For each colour its ticks [place, label]; `top` is the end of the logarithmic ones, in bits."""
    ticks = {name: ramp_ticks(name, V) for name in COLOURS if name != "probability"}
    share = [[each / 4, f"{25 * each} %"] for each in range(5)]
    return {"ticks": {"probability": share} | ticks, "top": blind(V), "ramps": ramps(), "hues": list(HUES)}


def blank_figure(words: Mapping[str, str]) -> str:
    """The figure of entropy by token without its lines, which the page adds; JSON. Words: axis_token, axis_entropy."""
    layout = frame_layout({"height": _HEIGHT}) | {
        "xaxis": {"title": {"text": words["axis_token"]}, "automargin": True, "showgrid": False, "zeroline": False},
        "yaxis": {"title": {"text": words["axis_entropy"]}, "automargin": True, "rangemode": "tozero"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
    }
    return json.dumps({"data": [], "layout": layout})
