"""Precision of sums over a text: at least float32, whatever the type of the preceding products."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Return the tensor in float32, or unchanged if it is float64."""
    return x if x.dtype == torch.float64 else x.float()


def exact(x: Tensor) -> AbstractContextManager:
    """Return a context without autocast, which has no meaning for tensors without numbers (the meta device)."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
