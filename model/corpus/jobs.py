"""Several jobs of one head: its outputs as points of their two largest principal components, in clusters."""

from dataclasses import dataclass

import numpy as np

from model.public import MOST_SEED, array, public, whole

DIMENSIONS = 8  # principal components that the clusters are found in


@dataclass(frozen=True, eq=False)
class Jobs:
    """The outputs of a head at places of a corpus."""

    points: np.ndarray  # [P, 2] float32, coordinates along the two largest principal components
    shares: np.ndarray  # [2], shares of the variance that the two components have
    cluster: np.ndarray  # [P] int64, by decreasing size
    places: np.ndarray  # [P, 2] int64, sequence and position
    explained: float  # share of the variance between the clusters' means, in the components used


@public(outputs=array("P D"), places=array("P 2"), clusters=whole(1, 8), seed=whole(0, MOST_SEED))
def jobs_of(outputs: np.ndarray, places: np.ndarray, clusters: int = 3, seed: int = 0) -> Jobs:
    """Find clusters among the outputs of a head. outputs [P, D], places [P, 2]

    Principal components of the centered outputs (Pearson 1901), signed so that the largest loading is positive, and
    k-means with k-means++ starts on the first DIMENSIONS of them (Lloyd 1982; Arthur & Vassilvitskii 2007), by scipy.
    """
    from scipy.cluster.vq import kmeans2  # imported here, since a start does not need it

    if places.shape != (len(outputs), 2):
        raise ValueError(f"places of outputs {outputs.shape} must be [{len(outputs)}, 2], got {places.shape}")
    centered = outputs.astype(np.float64) - outputs.mean(0, dtype=np.float64)
    u, s, vt = np.linalg.svd(centered, full_matrices=False)
    n = min(DIMENSIONS, len(s))
    signs = np.sign(vt[np.arange(n), np.abs(vt[:n]).argmax(1)])
    points = u[:, :n] * s[:n] * np.where(signs == 0, 1, signs)
    total = (s**2).sum() or 1.0
    k = min(clusters, len(np.unique(points.round(9), axis=0)))
    means, label = kmeans2(points, k, minit="++", iter=50, rng=np.random.default_rng(seed))
    sizes = np.bincount(label, minlength=k)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    inside, every = ((points - means[label]) ** 2).sum(), (points**2).sum() or 1.0
    shown = np.zeros((len(points), 2), np.float32)
    shown[:, : min(n, 2)] = points[:, :2]
    shares = np.zeros(2)
    shares[: min(n, 2)] = (s[:2] ** 2 / total)[: min(n, 2)]
    return Jobs(shown, shares, rank[label].astype(np.int64), places, float(1 - inside / every))
