"""The outputs of a run by another library (model.hooked), which cannot be recomputed from the residual stream."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Kept:
    """The attention weights and the logits of a run."""

    attention: Tensor  # [L, H, T, T] float32
    logits: np.ndarray  # [T, V] float32

    @property
    def nbytes(self) -> int:
        """The bytes of both."""
        return self.attention.nbytes + self.logits.nbytes
