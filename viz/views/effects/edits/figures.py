"""Pictures of what edits do: a map of every head's effect, the strongest ones, and next tokens before and after."""

from dataclasses import dataclass

import numpy as np

_NARROW = 120, 26, 300, 620  # height in pixels: of the axes, of a head, least, most


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep found."""

    start: float  # the number before any head is replaced
    effects: np.ndarray  # [L, H]


def strongest(effects: np.ndarray, most: int = 10) -> list[dict]:
    """The heads with the largest effects, whichever way: {"head": [layer, head], "effect": number}. effects [L, H]"""
    order = np.argsort(-np.abs(effects), axis=None, kind="stable")[:most]
    places = [divmod(int(at), effects.shape[1]) for at in order]
    return [{"head": list(place), "effect": float(effects[place])} for place in places]
