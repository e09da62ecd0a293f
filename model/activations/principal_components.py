"""Principal components of the residual stream: the plane or the three-dimensional space in which its
states vary most.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.errors import InputError
from model.public import public, whole
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Space:
    """The residual stream in its principal components. Layer l is the input of block l, and layer L is the final
    stream.
    """

    coordinates: np.ndarray  # [L + 1, T, components] float32; without the first token if `start` is 1
    shares: np.ndarray  # [components] explained variance ratios; float64
    directions: np.ndarray  # [components, D] orthonormal; float32
    mean: np.ndarray  # [D] mean of all states; float32
    start: int  # the position of the first included token: 0 or 1

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.coordinates.nbytes + self.directions.nbytes


@public(components=whole(1))
@torch.inference_mode()
def principal(run: Trace, *, scaled: bool = True, first: bool = True, components: int = 3) -> Space:
    """Compute the principal components of all (L + 1) T states of the run's residual stream together.

    coordinates = (states - mean) @ directions.T, where the directions are the eigenvectors of the states' covariance
    with the largest eigenvalues, and `shares` are those eigenvalues divided by the sum of all. Each direction's entry
    of largest absolute value (the first of ties) is positive, so that the same run gives the same picture. Components
    beyond the rank of the states have direction and coordinates 0. Source: Pearson 1901; Hotelling 1933.

    `scaled`: every state is first divided by its L2 norm, so that a few states with very large norms, above all the
    first token's, do not dominate; a zero state stays 0. `first`: the first token is included. Computed in float64.
    Raises InputError if no state is left or all of them are equal.
    """
    start = 0 if first else 1
    states = run.residuals[:, start:]  # [L + 1, T, D]
    if states.shape[1] == 0:
        raise InputError("Without the first token nothing is left.", "1 token", "Type a longer prompt, or keep it.")
    mean = torch.stack([_scaled(layer, scaled).mean(0) for layer in states]).mean(0)
    n, D = states.shape[0] * states.shape[1], states.shape[2]
    values, vectors = _few_states(states, mean, scaled) if n < D else many_states(states, mean, scaled)
    total = values.sum()
    # Equal states differ from their mean only by rounding.
    if total <= n * 1e-12 * max(mean.square().sum().item(), 1e-300):
        raise InputError("All states of the residual stream are the same.", "", "Type a longer prompt.")
    count = min(components, len(values))
    directions = torch.zeros(components, D, dtype=torch.float64)
    directions[:count] = signed(vectors[:, -count:].flip(1).T)
    shares = torch.zeros(components, dtype=torch.float64)
    shares[:count] = values[-count:].flip(0) / total
    none = shares < 1e-12  # zero variance up to rounding
    directions[none], shares[none] = 0, 0
    coordinates = torch.stack([((_scaled(layer, scaled) - mean) @ directions.T).float() for layer in states])
    return Space(coordinates.numpy(), shares.numpy(), directions.float().numpy(), mean.float().numpy(), start)


@public(layers=whole(1), T=whole(1), D=whole(1))
def work(layers: int, T: int, D: int) -> float:
    """Estimate the number of multiplications of `principal`."""
    small = min(layers * T, D)
    return layers * T * D * small + 8 * small**3


def _scaled(states: Tensor, scaled: bool) -> Tensor:
    """Convert the states of a layer to float64 and optionally divide each by its L2 norm. [T, D] -> [T, D]"""
    states = states.double()
    if not scaled:
        return states
    length = states.norm(dim=-1, keepdim=True)
    return states / torch.where(length > 0, length, 1)


def many_states(states: Tensor, mean: Tensor, scaled: bool) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues [D] of the scatter matrix, ascending and clipped at 0, and its eigenvectors as columns [D,
    D].
    """
    D = states.shape[-1]
    squares = torch.zeros(D, D, dtype=torch.float64)
    for layer in states:
        x = _scaled(layer, scaled) - mean
        squares.addmm_(x.T, x)
    values, vectors = torch.linalg.eigh(squares)
    return values.clamp(min=0), vectors


def _few_states(states: Tensor, mean: Tensor, scaled: bool) -> tuple[Tensor, Tensor]:
    """Return the n largest eigenvalues [n], ascending, and their eigenvectors as columns [D, n], by an SVD of the n < D
    states.
    """
    x = torch.cat([_scaled(layer, scaled) - mean for layer in states])  # [n, D]
    _, size, directions = torch.linalg.svd(x, full_matrices=False)  # descending
    return size.square().flip(0), directions.flip(0).T


def signed(directions: Tensor) -> Tensor:
    """Return each direction with the sign that makes its entry of largest absolute value positive. [n, D] -> [n, D]"""
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return directions * torch.where(largest < 0, -1.0, 1.0)
