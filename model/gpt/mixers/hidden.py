"""Hidden attention: a map of weights for a mixer without a softmax.

The recurrence of such a layer equals a T x T matrix (the matrix forms in this folder), whose entries are the
coefficients of earlier values in a token's output. They can be negative and of any magnitude. To obtain weights for a
map, absolute values are taken and every row is divided by its sum. Ali et al. 2024, "The Hidden Attention of Mamba
Models", 4, show Mamba's matrices in this way, averaged over channels.
"""

from torch import Tensor


def row_weights(matrix: Tensor) -> Tensor:
    """Return |M| with every row divided by its sum; a row of zeros remains zero. [..., T, S] -> [..., T, S]"""
    size = matrix.abs()
    total = size.sum(-1, keepdim=True)
    return size / total.masked_fill(total == 0, 1)
