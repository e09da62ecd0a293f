"""Measurements of one head's query and key as rotated pairs of dimensions."""

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

MOST_SHIFT = 1 << 20  # maximum shift, about a million positions
SHOWN = 16  # number of circles shown initially
FARTHEST = 1024  # number of distances on the slider, unless the context is shorter or the actual distance larger
DRAWN = 256  # maximum number of distances on the curve, which oscillates too densely beyond


@dataclass(frozen=True, eq=False)
class HeadRotation:
    """The queries and keys of one head, and the key with the largest weight for each query."""

    qk: HeadQK
    reads: np.ndarray  # key with the largest weight for each query, except token 0 and the query itself, int64 [T]


@dataclass(frozen=True, eq=False)
class Errors:
    """The change of a score when both positions shift, and the bound on it, in one number format."""

    name: str  # key of PRECISIONS
    errors: np.ndarray  # change of the score at each shift, [N]
    bound: np.ndarray  # bound on the rounding error, [N]


@dataclass(frozen=True, eq=False)
class Turned:
    """A query and a key as n pairs of dimensions, and each pair's contribution to the score.

    Angles are in radians and measured before rotation.
    """

    query: int  # position of the query
    key: int
    own: bool  # whether the layer has RoPE; if not, only this view rotates q and k
    base: float  # base of the rotation
    model_score: float
    theta: np.ndarray  # radians per position, [n]
    wavelength: np.ndarray  # positions per full turn, [n]
    q: np.ndarray  # norms, [n]
    q_angle: np.ndarray  # [n]
    k: np.ndarray  # norms, [n]
    k_angle: np.ndarray  # [n]
    before: np.ndarray  # contributions at distance 0, [n + 1]; the last is that of the unrotated dimensions
    after: np.ndarray  # contributions at the actual distance, [n + 1]
    d_head: int
    by_distance: np.ndarray  # score at distances 0 .. N - 1, [N]
    slow: np.ndarray  # part of `by_distance` due to slow pairs, see `slow_sum`, [N]
    shifts: list[int]
    shifted: tuple[Errors, ...]  # one entry per number format of PRECISIONS

    @property
    def distance(self) -> int:
        """Distance from the key to the query, in positions."""
        return self.query - self.key

    @property
    def gap(self) -> float:
        """Absolute difference between the sum over pairs and the model's score.

        Without rotation, the sum is the one before rotation.
        """
        return abs(float((self.after if self.own else self.before).sum()) - self.model_score)


def measure_head(scene: Scene, settings: Settings) -> HeadRotation:
    """Compute the queries and keys of the main head."""
    pattern = scene.trace.pattern(*scene.head)
    reads = [int(row[1:query].argmax()) + 1 if query > 1 else 0 for query, row in enumerate(pattern)]
    return HeadRotation(head_qk(scene.trace, *scene.head), np.array(reads))


def measure_pair(scene: Scene, settings: Settings, results: Mapping[str, HeadRotation]) -> Turned:
    """Compute the contributions of the selected query and key. Raises InputError if edits make q or k overflow."""
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
        pair.config.rope_theta,
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
    """Return the query and key to show: those of a selected edge, or two selected tokens.

    If one token is selected, it is the query, and the key is the one with its largest weight. If nothing is selected,
    the
    query is the last token.
    """
    picked, last = scene.picked, len(scene.tokens) - 1
    if picked.pair:
        return max(picked.pair), min(picked.pair)
    if len(picked.tokens) > 1:
        return max(picked.tokens), min(picked.tokens)
    query = picked.tokens[0] if picked.tokens else last
    return query, int(result.reads[query])


def farthest(pair: QKPair | Turned, n_ctx: int) -> int:
    """Return the maximum distance of the slider."""
    return max(pair.distance, min(n_ctx, FARTHEST) - 1)


def shifts() -> list[int]:
    """Return the shifts to evaluate: all up to 256, then geometrically increasing ones up to MOST_SHIFT."""
    grown = np.geomspace(256, MOST_SHIFT, 260).round().astype(int)
    return np.unique(np.concatenate([np.arange(1, 257), grown])).tolist()


def strongest(q: np.ndarray, k: np.ndarray) -> list[int]:
    """Select the SHOWN pairs with the largest maximum contribution |q_i| |k_i|, in increasing order of index. [n]"""
    return sorted(np.argsort(-(q * k), kind="stable")[:SHOWN].tolist())


def slow_sum(parts: np.ndarray, frequency: np.ndarray, context: int) -> np.ndarray:
    """Sum the contributions of the unrotated dimensions and of pairs that make less than one turn in the context.

    parts [N, n + 1], frequency [n] -> [N]
    """
    slow = np.append(2 * math.pi / frequency > context, True)
    return parts[:, slow].sum(1)
