"""The list of heads beside a grid of their effects, as static/views/effects/effect_map.js shows it."""

from collections.abc import Callable

import numpy as np

from viz.numbers import signed
from viz.seam.programs.answers import ranked_heads
from viz.theme import SIGNED

STRONGEST = 10  # maximum number of heads in the list
HUES = [SIGNED[1], SIGNED[-2]]  # colors for a decrease and an increase


def strongest(effects: np.ndarray, written: Callable[[float], str] = signed) -> list[dict]:
    """Return the heads with the largest absolute effects: {"head": [layer, head], "effect", "text"}. effects [L, H]"""
    heads = [(row["layer"], row["head"], row["value"]) for row in ranked_heads(effects, STRONGEST, size=True)]
    return [{"head": [layer, head], "effect": value, "text": written(value)} for layer, head, value in heads]
