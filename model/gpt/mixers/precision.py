"""Precision of sums over a text: at least float32, whatever the type of the preceding products."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Return the tensor in float32, or unchanged if it is float64."""
    return x if x.dtype == torch.float64 else x.float()
