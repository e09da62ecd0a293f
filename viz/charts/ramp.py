"""The color ramp on which a text's tokens are placed by their probability under the model."""

import math

import numpy as np

from viz.numbers import decimals, number
from viz.theme import RAMPS


def blind(V: int) -> float:
    """Return the surprisal in bits of a uniform guess among V tokens, which is the end of the ramp."""
    return math.log2(V)


def ramp_ticks(by: str, V: int) -> list[list]:
    """Return [position on the ramp, label] from the most likely token to a uniform guess. `by` is "surprisal", "rank"
    or "entropy".
    """
    top = blind(V)
    if by == "rank":
        powers = [10**n for n in range(1, 1 + math.floor(math.log10(V / 2)))]
        return [[math.log2(each) / top, f"{each // 1000}k" if each >= 1000 else f"{each}"] for each in (1, *powers, V)]
    step = 4 if top > 8 else 2
    within = np.arange(0, top - step / 2, step).tolist()
    last = decimals(top, 1) if by == "entropy" else f"≥ {decimals(top, 1)}"
    return [*([each / top, number(each)] for each in within), [1, last]]


def ramps() -> dict[str, list[str]]:
    """Return the colors of the ramp for the light and the dark page."""
    return {name: list(stops) for name, stops in RAMPS.items()}
