"""Error of a softmax approximation for one head, at one size, and over sizes and random draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.attention.approximations.kernels import recurrent
from model.attention.approximations.low_rank import exact
from model.attention.approximations.ways import Way, feature_map, matrix
from model.public import one_of, public, whole
from model.tracing.trace import HeadQKV

SIZES = {
    "performer": (8, 16, 32, 64, 128, 256, 512, 1024),
    "linformer": (4, 8, 16, 32, 64, 128, 256),
    "nystrom": (2, 4, 8, 16, 32),
}
SEEDS = 5  # number of draws of a random method
ROWS = 64  # maximum number of queries in a sweep


@dataclass(frozen=True, eq=False)
class Approximation:
    """One head with softmax attention and with its approximation. z are outputs of one row, Z of all rows; ' marks
    approximate ones.
    """

    exact: np.ndarray  # softmax weights, float32 [T, T]
    matrix: np.ndarray  # approximate weights of the values, float32 [T, T]
    distance: np.ndarray  # L1 distance per row, the sum over keys of |matrix - exact|; float64 [T]
    off: np.ndarray  # |z' - z| / |z| per row, float64 [T]
    error: float  # |Z' - Z| / |Z| over all rows (Frobenius)
    uniform_error: float  # `error` of uniform attention
    sums: tuple[float, float]  # smallest and largest row sum of the matrix
    least: float  # smallest weight of the matrix
    gap: float | None  # largest |recurrent - parallel| over the largest |output|; None without a feature map

    @property
    def mean_distance(self) -> float:
        """The mean L1 distance over the rows: 0 if equal, 2 for two distributions with disjoint support."""
        return float(self.distance.mean())


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Errors of one kind of approximation as a function of its size."""

    key: str  # key of CURVES
    sizes: tuple[int, ...]  # a single entry, 0, for a method without a size
    distances: np.ndarray  # mean L1 distance of the rows, float64 [draws, sizes]
    errors: np.ndarray  # |Z' - Z| / |Z|, float64 [draws, sizes]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Error curves of one head, measured on the same queries."""

    curves: tuple[ErrorCurve, ...]
    queries: int  # number of queries, evenly spaced if the prompt has more than ROWS
    uniform: tuple[float, float]  # mean L1 distance and output error of uniform attention


# {key: (method, orthogonal, projection)}
CURVES = {
    "performer": ("performer", False, "random"),
    "performer_orthogonal": ("performer", True, "random"),
    "linear": ("linear", False, "random"),
    "linformer": ("linformer", False, "random"),
    "linformer_mean": ("linformer", False, "mean"),
    "nystrom": ("nystrom", False, "random"),
}


def curve_of(way: Way) -> str:
    """Return the key of the curve to which a method belongs."""
    used = (way.method, way.orthogonal and way.method == "performer", way.projection)
    kind = used if way.method == "linformer" else (*used[:2], "random")
    return next(key for key, each in CURVES.items() if each == kind)


@public(layer=whole(0))
@torch.inference_mode()
def approximate(qkv: HeadQKV, way: Way, layer: int = 0) -> Approximation:
    """Compare one head's softmax with its approximation, in float64. Identity: the matrix times v is the recurrent
    form's output.

    `layer` affects only the random draws.
    """
    q, k, v = doubles(qkv)
    rows = torch.arange(len(q))
    true, approximated = exact(q, k, rows), matrix(way, q, k, rows, layer)
    z, output = true @ v, approximated @ v
    distance, off, error = _errors(true, approximated, v)
    gap = None
    if way.method in ("performer", "linear"):
        apart = (recurrent(*feature_map(way, q.shape[-1], layer)(q, k), v) - output).abs().max()
        gap = float(apart / output.abs().max())
    sums = approximated.sum(-1)
    return Approximation(
        true.float().numpy(),
        approximated.float().numpy(),
        distance.numpy(),
        off.numpy(),
        error,
        float((_uniform(rows, len(k)) @ v - z).norm() / z.norm()),
        (float(sums.min()), float(sums.max())),
        float(approximated.min()),
        gap,
    )


def doubles(qkv: HeadQKV) -> tuple[Tensor, Tensor, Tensor]:
    """Convert q, k and v to float64 tensors. [T, E] each"""
    q, k, v = (torch.from_numpy(np.asarray(part)).double() for part in (qkv.q, qkv.k, qkv.v))
    return q, k, v


def _uniform(rows: Tensor, T: int) -> Tensor:
    """Return rows with equal weight on all visible keys. [R, T]"""
    return (torch.arange(T) <= rows[:, None]).double() / (rows[:, None] + 1)


def _errors(true: Tensor, approximated: Tensor, v: Tensor) -> tuple[Tensor, Tensor, float]:
    """Compute each row's L1 distance [R], the relative error of each row's output [R], and that of all outputs. `true`,
    `approximated` [R, T], v [T, E]
    """
    apart = approximated - true
    z, missed = true @ v, apart @ v
    return apart.abs().sum(-1), missed.norm(dim=-1) / z.norm(dim=-1), float(missed.norm() / z.norm())


@public(layer=whole(0), seeds=whole(1), curves=one_of(CURVES))
@torch.inference_mode()
def sweep(qkv: HeadQKV, layer: int = 0, seeds: int = SEEDS, curves: Sequence[str] = tuple(CURVES)) -> Sweep:
    """Measure the errors of the given kinds over their sizes, random ones with several draws, on at most ROWS evenly
    spaced queries.
    """
    q, k, v = doubles(qkv)
    T = len(q)
    rows = torch.arange(T) if T <= ROWS else torch.linspace(0, T - 1, ROWS).round().long()
    true = exact(q[rows], k, rows)

    def error(way: Way) -> tuple[float, float]:
        distance, _, off = _errors(true, matrix(way, q, k, rows, layer), v)
        return float(distance.mean()), off

    measured = []
    for key in curves:
        method, orthogonal, projection = CURVES[key]
        sizes = SIZES.get(method, (0,))
        draws = seeds if Way(method, 1, 0, orthogonal, projection).drawn else 1
        both = np.array(
            [[error(Way(method, size, seed, orthogonal, projection)) for size in sizes] for seed in range(draws)]
        )  # [draws, sizes, 2]
        measured.append(ErrorCurve(key, sizes, both[..., 0], both[..., 1]))
    distance, _, off = _errors(true, _uniform(rows, T), v)
    return Sweep(tuple(measured), len(rows), (float(distance.mean()), off))
