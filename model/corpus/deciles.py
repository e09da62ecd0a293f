"""Sequences by the deciles of a number, so that the middle of a head or neuron is seen as well as its top."""

from dataclasses import dataclass

import numpy as np

from model.public import array, public

DECILES = 10


@dataclass(frozen=True, eq=False)
class Decile:
    """A tenth of the sequences, from the lowest numbers to the highest."""

    low: float
    high: float
    members: np.ndarray  # sequences by increasing number
    middle: int  # the sequence in the middle


@public(values=array("N", finite=False))
def deciles(values: np.ndarray) -> tuple[Decile, ...]:
    """Divide sequences into tenths by a number, the highest first; NaN is left out. [N]

    Tenths differ in size by at most one; with fewer than ten sequences, there are as many parts as sequences.
    """
    order = np.argsort(values, kind="stable")
    order = order[np.isfinite(values[order])]
    parts = np.array_split(order, min(DECILES, len(order))) if len(order) else []
    return tuple(
        Decile(float(values[part[0]]), float(values[part[-1]]), part, int(part[len(part) // 2]))
        for part in reversed(parts)
    )
