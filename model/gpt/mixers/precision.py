"""Sums over a whole text are taken in float32 at least, whatever the products before them are computed in."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Return the tensor in float32, or in float64 where it is."""
    return x if x.dtype == torch.float64 else x.float()
