"""What a mixer without attention can show as a map of weights: its hidden attention.

Such a layer has no softmax, but its recurrence equals a T x T matrix (the matrix forms in this folder), and that matrix
says how much of each earlier value a token takes in. Its entries have a sign and any size. A map needs weights, so that
sizes are taken and every row is divided by its sum. Ali et al. 2024, "The Hidden Attention of Mamba Models", 4, draw
Mamba's in this way, averaged over channels.
"""

from torch import Tensor


def row_weights(matrix: Tensor) -> Tensor:
    """|M|, every row divided by its sum; a row of zeros stays. [..., T, S] -> [..., T, S]"""
    size = matrix.abs()
    total = size.sum(-1, keepdim=True)
    return size / total.masked_fill(total == 0, 1)
