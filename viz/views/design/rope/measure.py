"""A query and a key of one head as pairs of dimensions, as numbers."""

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
SHOWN = 16  # circles at first
FARTHEST = 1024  # distances of the slider, where the context is longer
DRAWN = 256  # and of the curve: more of its ripples could not be distinguished


@dataclass(frozen=True, eq=False)
class Head:
    """The queries and keys of one head, and where each query looks."""

    qk: HeadQK
    reads: np.ndarray  # the key that each query reads most, itself and the first token aside, int64 [T]


@dataclass(frozen=True, eq=False)
class Errors:
    """How far a score moves when both positions are shifted, in one number format."""

    name: str  # of PRECISIONS
    errors: np.ndarray  # by shift [N]
    bound: np.ndarray  # what rounding allows [N]


@dataclass(frozen=True, eq=False)
class Turned:
    """A query and a key in n pairs, and what each adds to the score. Angles in radians, before turning."""

    query: int  # positions
    key: int
    own: bool  # whether the model has RoPE; else its q and k are turned here only
    model_score: float
    theta: np.ndarray  # radians a position [n]
    wavelength: np.ndarray  # positions [n]
    q: np.ndarray  # lengths [n]
    q_angle: np.ndarray  # [n]
    k: np.ndarray  # lengths [n]
    k_angle: np.ndarray  # [n]
    before: np.ndarray  # added to the score at distance 0, last what is not turned [n + 1]
    after: np.ndarray  # at the pair's own distance [n + 1]
    d_head: int
    by_distance: np.ndarray  # the score at distances 0 .. N - 1 [N]
    slow: np.ndarray  # of that the pairs that turn less than once within the context, and the rest [N]
    shifts: list[int]
    shifted: tuple[Errors, ...]  # by PRECISIONS

    @property
    def distance(self) -> int:
        """Positions from the key to the query."""
        return self.query - self.key

    @property
    def gap(self) -> float:
        """Between the sum over pairs and the model's score; without RoPE, of the pairs before turning."""
        return abs(float((self.after if self.own else self.before).sum()) - self.model_score)


def measure_head(scene: Scene, settings: Settings) -> Head:
    """Return the queries and keys of the main head. One block is run."""
    pattern = scene.trace.pattern(*scene.head)
    reads = [int(row[1:query].argmax()) + 1 if query > 1 else 0 for query, row in enumerate(pattern)]
    return Head(head_qk(scene.trace, *scene.head), np.array(reads))


def measure_pair(scene: Scene, settings: Settings, results: Mapping[str, Head]) -> Turned:
    """Return the picked query and key; raises InputError where edits drove them beyond float32."""
    config, head = scene.model.config, results["head"]
    query, key = cell_of(scene, head)
    pair = pair_of(config, head.qk, query, key)
    if not (np.isfinite(pair.q).all() and np.isfinite(pair.k).all()):
        raise InputError("The edits have driven q or k beyond the range of float32.", "", "Remove an edit to see them.")
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


def cell_of(scene: Scene, result: Head) -> tuple[int, int]:
    """Return the query and the key that are picked: a cell, else two tokens, else one token and what it reads most."""
    picked, last = scene.picked, len(scene.tokens) - 1
    if picked.pair:
        return max(picked.pair), min(picked.pair)
    if len(picked.tokens) > 1:
        return max(picked.tokens), min(picked.tokens)
    query = picked.tokens[0] if picked.tokens else last
    return query, int(result.reads[query])


def farthest(pair: QKPair | Turned, n_ctx: int) -> int:
    """Return the longest distance that can be chosen."""
    return max(pair.distance, min(n_ctx, FARTHEST) - 1)


def shifts() -> list[int]:
    """Return the shifts that are tried: every one up to 256, then in growing steps up to a million."""
    grown = np.geomspace(256, MOST_SHIFT, 260).round().astype(int)
    return np.unique(np.concatenate([np.arange(1, 257), grown])).tolist()


def strongest(q: np.ndarray, k: np.ndarray) -> list[int]:
    """The pairs with the largest |q_i| |k_i|, the most they can add, in the order of the dimensions. [n] each"""
    return sorted(np.argsort(-(q * k), kind="stable")[:SHOWN].tolist())


def slow_sum(parts: np.ndarray, frequency: np.ndarray, context: int) -> np.ndarray:
    """Of contributions [N, n + 1], the sum of the pairs that turn less than once within the context, and the rest."""
    slow = np.append(2 * math.pi / frequency > context, True)
    return parts[:, slow].sum(1)
