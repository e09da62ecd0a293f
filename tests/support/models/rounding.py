"""How far two float32 computations of the same may be apart, from the numbers themselves: what bounds are made of here.

`within` measures it for a whole forward, as the Checks tab does (model/checks/roundoff.py: every number on the way is
moved by errors of float32's size). `sums` follows from the number of terms and their size alone. Neither knows a CPU.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from model.checks.roundoff import UNIT, Site, bounds, summed
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer

DRAWS = 2  # times that all numbers are moved: a test looks at few rows, so that chance counts for more


def within(
    model: Transformer, ids: Tensor, tap: Tap | None = None, sites: Collection[str] = ("logits",)
) -> dict[Site, Tensor]:
    """The bound of every row, by (site, layer), to be laid beside what is compared. [B, (H,) T, 1] each"""
    return {key: bound[..., None] for key, bound in bounds(model, ids, tap, sites, DRAWS).items()}


def logits_within(model: Transformer, ids: Tensor, tap: Tap | None = None) -> Tensor:
    """That of the logits. ids [B, T] -> [B, T, 1]"""
    return within(model, ids, tap)["logits", model.config.n_layer]


def shares_within(shares: Tensor, logits: Tensor) -> Tensor:
    """The bound of softmax(logits), whose own bound is given: p (dz - sum of p dz), so at most 2 p |dz|. [..., V]

    And the rounding of the softmax: a sum of V terms, and the exponential of what was rounded itself.
    """
    return torch.as_tensor(shares).double() * (2 * logits + summed(shares.shape[-1]))


def sums(n: int, size) -> Tensor:
    """The bound of a sum of n terms, whose sizes add up to `size`, computed twice in float32."""
    return summed(n) * torch.as_tensor(size).detach().double().abs()


def products(a: Tensor, b: Tensor) -> Tensor:
    """The bound of a @ b: every sum of its products, by their sizes."""
    a, b = (torch.as_tensor(x).detach().double().abs() for x in (a, b))
    return sums(a.shape[-1], a @ b)


def rounded(x, n: int = 1) -> Tensor:
    """The bound of numbers to which n operations were done one after the other, each rounding once: n u |x|."""
    return n * UNIT * torch.as_tensor(x).detach().double().abs()


def of_linear(x, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The bound of x W^T + b."""
    return products(x, weight.mT) + (0 if bias is None else rounded(bias))
