"""Steering over a set: a vector from pairs that are not scored, added to the corrupt prompts of those that are."""

from collections.abc import Sequence

import numpy as np
import torch

from model.api import LanguageModel
from model.attention.targets import Target, aim_of, measure, original
from model.sets.aligned import AlignedPair
from model.steering.effects import steered
from model.steering.vectors import pair_vectors, random_directions
from model.tracing.trace import Trace

FACTORS = (-1.0, 0.5, 1.0, 2.0, 4.0)


def directions(pairs: Sequence[AlignedPair]) -> list[int]:
    """Return 1 for each pair, and -1 if an earlier pair has its two answers exchanged: sets such as "she" against "he"
    turn every other pair round, and the mean of both kinds would be no direction.
    """
    first: set[tuple[int, int]] = set()
    found = []
    for pair in pairs:
        turned = (pair.distractor, pair.target) in first
        found.append(-1 if turned else 1)
        if not turned:
            first.add((pair.target, pair.distractor))
    return found


def set_vectors(lm: LanguageModel, calibration: Sequence[AlignedPair]) -> np.ndarray:
    """Compute each layer's vector: the mean difference of the streams after the layer at the last token, clean minus
    corrupt, or corrupt minus clean for pairs of direction -1. float32 [L, D]

    Source: Panickssery et al. 2023, section 3.
    """
    texts = [(each.pair.clean, each.pair.corrupt) for each in calibration]
    ways = directions(calibration)
    return pair_vectors(lm, [pair if way > 0 else pair[::-1] for pair, way in zip(texts, ways, strict=True)])


@torch.inference_mode()
def steered_metric(
    run: Trace, target: Target, vectors: np.ndarray, factors: Sequence[float] = FACTORS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Add factor times each layer's vector after the layer, at the last token, and return the change of the metric,
    and the same with a random direction of the vector's length. float32 [L, F] each

    It equals that of `run.edit(steering_edit(...))`, up to the rounding error of float32.
    """
    aim, T = aim_of(run, target, run), len(run.tokens)
    at = torch.zeros(T, 1)
    at[-1] = 1
    before, found = original(aim), []
    for layer, vector in enumerate(vectors):
        length = float(np.linalg.norm(vector.astype(np.float64)))
        drawn = random_directions(len(vector), length, 1, seed + layer) if length > 0 else np.zeros((1, len(vector)))
        rows = torch.from_numpy(np.concatenate([vector[None], drawn]).astype(np.float32))  # [2, D]
        deltas = (rows[:, None] * torch.tensor(factors)[:, None]).flatten(0, 1)  # [2 F, D]
        values = measure(steered(run, layer, "resid_post", deltas, at), aim) - before
        found.append(values.view(2, len(factors)))
    own, random = torch.stack(found, 1).float().numpy()
    return own, random
