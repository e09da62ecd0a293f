"""Gradients at initialization in a stack of equal layers: the gradient norm at each layer after backpropagation.

A layer is x -> act(g W x) with a random orthogonal matrix W. W preserves norms, so the gain g alone determines how much
a linear layer scales a vector. With a residual connection the layer is x -> x + act(g W x); the norm is before the
matrix (pre) or after the addition (post). Without activation and norm, the chain rule gives a gradient of norm g^(L -
l) before layer l, for each vector; with residual connections its mean square is (1 + g^2)^(L - l).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.design.block_trials import one_thread
from model.gpt.layers import gelu, layernorm_parts
from model.public import between, one_of, public, whole

WIDTH, ROWS, SEEDS = 32, 32, 3  # dimensions per vector, vectors per stack, number of random stacks
NORMS = ("none", "pre", "post")
EPS = 1e-5
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "gelu": gelu,
    "tanh": torch.tanh,
}


@public(depth=whole(1, 4096), norm=one_of(NORMS), activation=one_of(ACTIVATIONS), gain=between(-1e6, 1e6))
@dataclass(frozen=True)
class Stack:
    """The settings of a stack of layers."""

    depth: int = 12
    residual: bool = False
    norm: str = "none"
    activation: str = "linear"
    gain: float = 0.9

    @property
    def predicted(self) -> np.ndarray | None:
        """The gradient norm before each layer and at the end [L + 1]; None if the chain rule gives no closed form."""
        if self.activation != "linear" or self.norm != "none":
            return None
        factor = (1 + self.gain**2) ** 0.5 if self.residual else self.gain
        return factor ** np.arange(self.depth, -1.0, -1.0)


def normed(x: Tensor) -> Tensor:
    """Apply layer normalization without learned parameters. [..., D] -> [..., D]"""
    centered, scale = layernorm_parts(x, EPS)
    return centered / scale


def layer(stack: Stack, weight: Tensor, x: Tensor) -> Tensor:
    """Apply one layer of the stack. weight [D, D], x [N, D] -> [N, D]"""
    read = normed(x) if stack.norm == "pre" else x
    update = ACTIVATIONS[stack.activation](stack.gain * read @ weight.T)
    out = x + update if stack.residual else update
    return normed(out) if stack.norm == "post" else out


def orthogonal(draws: np.random.Generator, width: int = WIDTH) -> Tensor:
    """Draw a random orthogonal matrix from the Haar measure. [D, D]

    The Q of a QR decomposition is multiplied by the signs of the diagonal of R (Mezzadri 2007).
    """
    q, r = np.linalg.qr(draws.normal(size=(width, width)))
    return torch.from_numpy(q * np.sign(np.diag(r)))


def gradients(stack: Stack, weights: list[Tensor], x: Tensor, end: Tensor) -> np.ndarray:
    """Compute the gradient norm of `end` . x_L before each layer and at the end, [L + 1], as root mean square over the
    rows.

    weights [D, D] each, x and end [N, D]. `end` is the gradient at the top; its rows have norm 1.
    """
    places = [x.requires_grad_()]
    with torch.enable_grad():
        for weight in weights:
            places.append(layer(stack, weight, places[-1]))
        slopes = torch.autograd.grad((end * places[-1]).sum(), places)
    return np.array([each.square().sum(-1).mean().sqrt().item() for each in slopes])


def drawn(depth: int, seed: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Draw the matrices of a stack, its input vectors, and the gradients at its top, which have norm 1."""
    draws = np.random.default_rng(seed)
    weights = [orthogonal(draws) for _ in range(depth)]
    x, end = (torch.from_numpy(draws.normal(size=(ROWS, WIDTH))) for _ in range(2))
    return weights, x, end / end.norm(dim=-1, keepdim=True)


@public(seeds=whole(1, 1024))
def by_layer(stack: Stack, seeds: int = SEEDS) -> np.ndarray:
    """Compute the gradient norms for several draws of the weights. [seeds, L + 1]"""

    with one_thread():
        return np.stack([gradients(stack, *drawn(stack.depth, seed)) for seed in range(seeds)])
