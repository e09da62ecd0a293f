"""The numbers of a scheme for programs."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.design.positions import (
    SCHEMES,
    as_rope,
    decay_bound,
    frequencies,
    kernel,
    similarity,
    vectors,
    wavelengths,
)
from viz.seam.programs.arguments import OneOf, Within
from viz.views.design.position_vectors.measure import FORMULAS, OWN
from viz.work.playground import Playground

MOST_VECTORS = 512


def position_vectors(
    playground: Playground,
    model: LanguageModel,
    scheme: Annotated[str, OneOf((OWN, *SCHEMES))] = OWN,
    length: Annotated[int, Within(1, MOST_VECTORS)] = 64,
) -> dict:
    """How a scheme writes the first positions: its vectors, how alike they are by distance, its wavelengths.

    Args:
        scheme: own: the model's. learned: the table in its weights, if it has one. sinusoidal, rope: by their formulas
            with the sizes of the model, rope with theta 10,000 where the model has none. none: no position is written.
        length: How many positions, from 0.

    Returns:
        vectors: a row a position; learned and sinusoidal: d_model numbers that are added; rope: the cosines and then
        the sines of its pairs. similarity: distance, mean cosine of the vectors so far apart, and the 10 and 90 % over
        positions; null for none. wavelengths: positions in which each pair turns once, kernel: mean cosine by distance,
        bound: of Su et al. 2021, 3.4.3, by distance; all null for learned and none. theta and rotary: of rope; rotary:
        dimensions of a head that turn.
    """
    config = model.config
    name = config.positions if scheme == OWN else scheme
    count = min(length, config.n_ctx) if name == "learned" else length
    table = vectors(model.model, name, range(count))
    theta = frequencies(config, name) if name in FORMULAS else None
    rope = as_rope(config) if name == "rope" else None
    return {
        "scheme": name,
        "own": name == config.positions,
        "vectors": table,
        "similarity": None if name == "none" else dataclasses.asdict(similarity(table)),
        "wavelengths": None if theta is None else wavelengths(theta),
        "kernel": None if theta is None else kernel(theta, range(count)),
        "bound": None if theta is None else decay_bound(theta, range(count)),
        "theta": rope and rope.rope_theta,
        "rotary": rope and rope.d_rotary,
    }
