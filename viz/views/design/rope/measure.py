"""Measurements of a query and a key of one head as rotated pairs of dimensions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from model.design.positions import (
    PRECISIONS,
    HeadQK,
    QKPair,
    contributions,
    frequencies,
    head_qk,
    pair_of,
    polar,
    shift_bound,
    shift_errors,
    wavelengths,
)
from model.errors import InputError
from viz.seam.scene import Scene
from viz.seam.settings import Settings

MOST_SHIFT = 1 << 20  # a million positions
SHOWN = 16  # circles shown initially
FARTHEST = 1024  # distances on the slider if the context is longer
DRAWN = 256  # distances on the curve: more ripples would blur


@dataclass(frozen=True, eq=False)
class HeadRotation:
    """Queries and keys of one head, and the key that each query reads most."""

    qk: HeadQK
    reads: np.ndarray  # key that each query reads most, without itself and token 0, int64 [T]


@dataclass(frozen=True, eq=False)
class Errors:
    """Change of a score when both positions shift, in one number format."""

    name: str  # key of PRECISIONS
    errors: np.ndarray  # by shift [N]
    bound: np.ndarray  # bound on the rounding error [N]


@dataclass(frozen=True, eq=False)
class Turned:
    """A query and a key as n pairs of dimensions, and each pair's contribution to the score.

    Angles are in radians, before rotation.
    """

    query: int  # positions
    key: int
    own: bool  # whether the model has RoPE; otherwise only this view rotates q and k
    model_score: float
    theta: np.ndarray  # radians per position [n]
    wavelength: np.ndarray  # positions per turn [n]
    q: np.ndarray  # lengths [n]
    q_angle: np.ndarray  # [n]
    k: np.ndarray  # lengths [n]
    k_angle: np.ndarray  # [n]
    before: np.ndarray  # contributions at distance 0; last: dimensions without rotation [n + 1]
    after: np.ndarray  # contributions at the actual distance [n + 1]
    d_head: int
    by_distance: np.ndarray  # score at distances 0 .. N - 1 [N]
    slow: np.ndarray  # part of by_distance, see slow_sum [N]
    shifts: list[int]
    shifted: tuple[Errors, ...]  # by PRECISIONS

    @property
    def distance(self) -> int:
        """Positions from the key to the query."""
        return self.query - self.key

    @property
    def gap(self) -> float:
        """Deviation of the sum over pairs from the model's score; without RoPE, of the sum before rotation."""
        return abs(float((self.after if self.own else self.before).sum()) - self.model_score)


def measure_head(scene: Scene, settings: Settings) -> HeadRotation:
    """Compute the queries and keys of the main head, by running one block."""
    pattern = scene.trace.pattern(*scene.head)
    reads = [int(row[1:query].argmax()) + 1 if query > 1 else 0 for query, row in enumerate(pattern)]
    return HeadRotation(head_qk(scene.trace, *scene.head), np.array(reads))


def measure_pair(scene: Scene, settings: Settings, results: Mapping[str, HeadRotation]) -> Turned:
    """Compute the contributions of the selected query and key. Raises InputError if edits drove them beyond float32."""
    config, head = scene.model.config, results["head"]
    query, key = cell_of(scene, head)
    pair = pair_of(config, head.qk, query, key)
    if not (np.isfinite(pair.q).all() and np.isfinite(pair.k).all()):
        raise InputError("The edits push q or k beyond the range of float32.", "", "Remove an edit to see them.")
    theta = frequencies(pair.config, "rope")
    before, after = contributions(pair, [0, pair.distance])
    parts = contributions(pair, range(max(pair.distance + 1, min(DRAWN, farthest(pair, config.n_ctx) + 1))))
    by = shifts()
    return Turned(
        query,
        key,
        pair.own,
        pair.score,
        theta,
        wavelengths(theta),
        *polar(pair.q, len(theta)),
        *polar(pair.k, len(theta)),
        before,
        after,
        len(pair.q),
        parts.sum(1),
        slow_sum(parts, theta, config.n_ctx),
        by,
        tuple(Errors(name, shift_errors(pair, by, name), shift_bound(pair, by, name)) for name in PRECISIONS),
    )


def cell_of(scene: Scene, result: HeadRotation) -> tuple[int, int]:
    """Return the selected query and key: an edge, or two tokens, or one token and the key that it reads most.

    Without a selection the query is the last token.
    """
    picked, last = scene.picked, len(scene.tokens) - 1
    if picked.pair:
        return max(picked.pair), min(picked.pair)
    if len(picked.tokens) > 1:
        return max(picked.tokens), min(picked.tokens)
    query = picked.tokens[0] if picked.tokens else last
    return query, int(result.reads[query])


def farthest(pair: QKPair | Turned, n_ctx: int) -> int:
    """Return the longest distance on the slider."""
    return max(pair.distance, min(n_ctx, FARTHEST) - 1)


def shifts() -> list[int]:
    """Return the shifts to try: all up to 256, then in growing steps up to MOST_SHIFT."""
    grown = np.geomspace(256, MOST_SHIFT, 260).round().astype(int)
    return np.unique(np.concatenate([np.arange(1, 257), grown])).tolist()


def strongest(q: np.ndarray, k: np.ndarray) -> list[int]:
    """Select the SHOWN pairs with the largest |q_i| |k_i|, their maximum contribution, in order of dimensions. [n]"""
    return sorted(np.argsort(-(q * k), kind="stable")[:SHOWN].tolist())


def slow_sum(parts: np.ndarray, frequency: np.ndarray, context: int) -> np.ndarray:
    """Sum the contributions of pairs that turn less than once in the context and of the dimensions without rotation.

    parts [N, n + 1], frequency [n] -> [N]
    """
    slow = np.append(2 * math.pi / frequency > context, True)
    return parts[:, slow].sum(1)
