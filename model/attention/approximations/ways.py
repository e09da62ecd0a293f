"""Approximations of softmax attention, and the T x T matrix that each of them implies."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from model.attention.approximations import kernels, low_rank
from model.public import MOST_SEED, one_of, public, whole

METHODS = ("performer", "linear", "linformer", "nystrom")
PROJECTIONS = ("random", "mean")
_APART = 1_000_003  # offset between the seeds of two layers


@public(method=one_of(METHODS), size=whole(0), seed=whole(0, MOST_SEED), projection=one_of(PROJECTIONS))
@dataclass(frozen=True)
class Way:
    """An approximation method with its size and random seed.

    `size`: Performer's random features, Linformer's projected keys, or Nystromformer's landmarks; linear attention has
    no size. `seed` and `orthogonal` apply to random draws. Raises InputError for an unknown method, ValueError for size
    0 if the method needs one.
    """

    method: str  # of METHODS
    size: int = 0
    seed: int = 0
    orthogonal: bool = False  # for Performer
    projection: str = "random"  # of PROJECTIONS, for Linformer

    def __post_init__(self) -> None:
        if self.method != "linear" and self.size < 1:
            raise ValueError(f"{self.method} needs a size of at least 1, got {self.size}")

    @property
    def drawn(self) -> bool:
        """True if the method depends on its seed."""
        return self.method == "performer" or (self.method == "linformer" and self.projection == "random")


def matrix(way: Way, q: Tensor, k: Tensor, rows: Tensor, layer: int = 0) -> Tensor:
    """Compute the matrix with which the method mixes the values, z = matrix @ v, with 0 for future keys.

    q and k [..., T, E] float64, `rows` [R] increasing query positions -> [..., R, T]. The heads of a layer share its
    random draws, as in the published implementations; `layer` makes the draws differ between layers.
    """
    return _MATRICES[way.method](way, q, k, rows, layer)


def feature_map(way: Way, width: int, layer: int = 0) -> kernels.FeatureMap:
    """Return the feature map of `performer` or `linear`; raises ValueError for other methods."""
    if way.method == "linear":
        return kernels.elu_features
    if way.method != "performer":
        raise ValueError(f"{way.method} has no feature map")
    w = kernels.directions(way.size, width, orthogonal=way.orthogonal, generator=_generator(way, layer))
    return kernels.positive_features(w)


def _generator(way: Way, layer: int) -> torch.Generator:
    return torch.Generator().manual_seed(way.seed + _APART * layer)


def _by_features(way: Way, q: Tensor, k: Tensor, rows: Tensor, layer: int) -> Tensor:
    return kernels.parallel(*feature_map(way, q.shape[-1], layer)(q[..., rows, :], k), rows)


def _linformer(way: Way, q: Tensor, k: Tensor, rows: Tensor, layer: int) -> Tensor:
    T, mean = k.shape[-2], way.projection == "mean"
    projection = (
        low_rank.segments(way.size, T) if mean else low_rank.random_projection(way.size, T, _generator(way, layer))
    )
    return low_rank.linformer(q[..., rows, :], k, rows, projection, mean=mean)


def _nystrom(way: Way, q: Tensor, k: Tensor, rows: Tensor, layer: int) -> Tensor:
    return low_rank.nystrom(q, k, rows, way.size)


_MATRICES: dict[str, Callable[[Way, Tensor, Tensor, Tensor, int], Tensor]] = {
    "performer": _by_features,
    "linear": _by_features,
    "linformer": _linformer,
    "nystrom": _nystrom,
}
