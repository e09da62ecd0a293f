"""API endpoint for the vectors and wavelengths of a position encoding."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.design.positions import (
    SCHEMES,
    WITHOUT_VECTORS,
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
    """Return a scheme's vectors for the first positions, their similarity by distance, and the scheme's wavelengths.

    Args:
        scheme: own: the model's. learned: the table in its weights, if it has one. sinusoidal, rope: by their formulas
            with the model's sizes, for a model without RoPE with theta 10,000. none: no position vectors.
        length: The number of positions, from 0.

    Returns:
        vectors: one row per position; learned and sinusoidal: the d_model numbers added to the embedding; rope: the
        cosines of its pairs, then the sines. similarity: distance, mean cosine of two vectors at that distance, and its
        10% and 90% quantiles over the positions; null for none and alibi. wavelengths: positions per full turn of each
        pair; kernel: mean cosine by distance; bound: the upper bound by distance of Su et al. 2021, section 3.4.3; all
        three are null for learned, alibi and none. theta, rotary: base of RoPE and number of rotated dimensions per
        head; null for other schemes.
    """
    config = model.config
    name = config.positions if scheme == OWN else scheme
    count = min(length, config.n_ctx) if name == "learned" else length
    table = vectors(model.model, name, range(count))
    theta = frequencies(config, name, count) if name in FORMULAS else None
    rope = as_rope(config) if name == "rope" else None
    return {
        "scheme": name,
        "own": name == config.positions,
        "vectors": table,
        "similarity": None if name in WITHOUT_VECTORS else dataclasses.asdict(similarity(table)),
        "wavelengths": None if theta is None else wavelengths(theta),
        "kernel": None if theta is None else kernel(theta, range(count)),
        "bound": None if theta is None else decay_bound(theta, range(count)),
        "theta": rope and rope.rope_theta,
        "rotary": rope and rope.d_rotary,
    }
