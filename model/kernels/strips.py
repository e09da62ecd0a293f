"""Products with weights in a file's own codes: integers with a scale and an offset per block, or bfloat16.

The codes represent the float32 weights exactly, W[o, i] = scale * code + offset, in a third or half of the bytes, and
the time of a product with few rows is that of reading the weights. They are arranged in strips of R outputs: the codes
of one input for all outputs of the strip are adjacent, so that a processor multiplies a strip at once, and applies the
scale once per block instead of once per weight.
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

# Options of numba: sums may be reordered; NaN and infinity are preserved.
FAST = {"fastmath": {"reassoc", "nsz", "contract", "arcp"}, "error_model": "numpy", "nogil": True}
ZERO = np.float32(0)


def _number(code):
    """Return a code as float32: an integer, or the upper half of a float32's bits, which is bfloat16."""


@overload(_number, inline="always")
def _number_of(code):
    if code == types.uint16:
        return lambda code: np.uint32(np.uint32(code) << np.uint32(16)).view(np.float32)
    return lambda code: np.float32(code)


@njit(**FAST)
def _block(w, x, start, stop, part):
    """Sum code * x over the inputs start .. stop - 1 for all outputs of a strip. Returns the sum of x.

    w [in, R], x [in], part [R]
    """
    mass = ZERO
    for r in range(len(part)):
        part[r] = ZERO
    for i in range(start, stop, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        wa, wb, wc, wd = w[i], w[i + 1], w[i + 2], w[i + 3]
        mass += a + b + c + d
        for r in range(len(part)):
            part[r] += _number(wa[r]) * a + _number(wb[r]) * b + _number(wc[r]) * c + _number(wd[r]) * d
    return mass


@njit(**FAST)
def _two_blocks(w, x, y, start, stop, part, other):
    """Compute `_block` for two rows x and y, reading each weight once."""
    mass, more = ZERO, ZERO
    for r in range(len(part)):
        part[r], other[r] = ZERO, ZERO
    for i in range(start, stop, 4):
        a, b, c, d, e, f, g, h = x[i], x[i + 1], x[i + 2], x[i + 3], y[i], y[i + 1], y[i + 2], y[i + 3]
        wa, wb, wc, wd = w[i], w[i + 1], w[i + 2], w[i + 3]
        mass += a + b + c + d
        more += e + f + g + h
        for r in range(len(part)):
            ua, ub, uc, ud = _number(wa[r]), _number(wb[r]), _number(wc[r]), _number(wd[r])
            part[r] += ua * a + ub * b + uc * c + ud * d
            other[r] += ua * e + ub * f + uc * g + ud * h
    return mass, more


@njit(**FAST)
def _add(total, part, mass, scale):
    """Add a block to a row's outputs. total and part [R], scale with offset [2, R]"""
    by, plus = scale[0], scale[1]
    for r in range(len(part)):
        total[r] += part[r] * by[r] + mass * plus[r]


@njit(**FAST)
def outputs(x, codes, scale, bias, y, start, stop):
    """Compute the strips start .. stop - 1 of y = x W^T + b.

    x [n, in], codes [strips, in, R], scales with offsets [strips, blocks, 2, R], bias [out] or empty, y [n, out].
    """
    n, R, size = len(x), codes.shape[2], codes.shape[1] // scale.shape[1]
    part, other, total = np.empty(R, np.float32), np.empty(R, np.float32), np.empty((n, R), np.float32)
    for s in range(start, stop):
        w = codes[s]
        for row in range(n):
            for r in range(R):
                total[row, r] = bias[s * R + r] if len(bias) else ZERO
        for block in range(scale.shape[1]):
            first, last = block * size, (block + 1) * size
            for row in range(0, n - 1, 2):
                mass, more = _two_blocks(w, x[row], x[row + 1], first, last, part, other)
                _add(total[row], part, mass, scale[s, block])
                _add(total[row + 1], other, more, scale[s, block])
            if n % 2:
                mass = _block(w, x[n - 1], first, last, part)
                _add(total[n - 1], part, mass, scale[s, block])
        for row in range(n):
            for r in range(R):
                y[row, s * R + r] = total[row, r]
