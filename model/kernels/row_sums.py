"""Sums of products of 32-bit words and keys, compiled by numba: the loop of `model.kernels.coded.digest`."""

import numpy as np
from numba import njit


@njit("void(uint32[::1], uint64[::1], uint64[::1])", nogil=True, error_model="numpy", cache=True)
def row_sums(words, keys, sums):
    """Set sums[r] to sum_i keys[i] words[r n + i] modulo 2^64. words [rows n], keys [n], sums [rows]"""
    n = len(keys)
    for r in range(len(sums)):
        row, total = words[r * n : (r + 1) * n], np.uint64(0)
        for i in range(n):
            total += keys[i] * np.uint64(row[i])
        sums[r] = total
