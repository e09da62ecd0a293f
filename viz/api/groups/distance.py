"""Scores against distance, and the loss past the trained length."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.design.past_length import FAMILIES, Part, by_position, edges, parts_of
from model.errors import InputError, say
from viz.api.arguments import Long, OneOf, Within
from viz.api.reading import done, unprompted
from viz.page.playground import Playground
from viz.views.design.past_length import view as longer_view

LEAST = 16  # tokens of a window


def past_trained_length(
    playground: Playground,
    model: LanguageModel,
    length: Annotated[int, Within(0, longer_view.MOST)] = 0,
    factor: Annotated[float, Within(0, 64)] = 0.0,
    family: Annotated[str, OneOf(FAMILIES)] = "stretch",
    text: Annotated[str, Long()] = "",
) -> dict:
    """The loss by position within and beyond the trained length, with the usual remedies; the model stays as it is.

    Args:
        length: Tokens of a window; 0: twice the trained length where that is quick, else a shorter one.
        factor: s of interpolation, NTK-aware, Llama 3 and YaRN scaling; 0: what the length needs, or 4 within it.
        family: stretch: these scalings. theta: other bases of the rotation. For models without RoPE it makes no
            difference.
        text: The text to read. Empty: a chapter of A Little Princess.

    Returns:
        trained: the trained length; windows: how many were read; ways: scheme and factor, inside and beyond (loss in
        nats a token, delta against the first way, its standard error, tokens; beyond is null where windows fit), and
        losses and errors, one a bucket of positions; edges: where the buckets begin and end.
    """
    scene = unprompted(playground, model)
    length = length or longer_view.lengths_of(scene)[0]
    if length < LEAST:
        raise InputError("The windows are too short.", f"{length} tokens", say("Give at least {} tokens.", LEAST))
    factor = factor or longer_view.automatic(model.config, length)
    asked = longer_view.Asked(length, family, factor, text or None)
    past = done(playground, longer_view.measurement(scene, asked))
    ends = edges(past.length, past.trained)
    losses, errors = by_position(past, ends)
    ways = []
    for n, way in enumerate(past.schemes):
        inside, beyond = parts_of(past, n)
        ways.append(
            {
                "scheme": way.key,
                "factor": way.factor,
                "inside": _plain(inside),
                "beyond": _plain(beyond),
                "losses": losses[n],
                "errors": errors[n],
            }
        )
    return {"trained": past.trained, "length": past.length, "windows": past.loss.shape[1], "edges": ends, "ways": ways}


def _plain(part: Part | None) -> dict | None:
    return None if part is None else dataclasses.asdict(part)
