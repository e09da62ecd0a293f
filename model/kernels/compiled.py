"""What a step of generation computes, as loops that numba compiles for this CPU.

A step has a few rows: one for each text that is written. Its time is that of reading the weights, and of the calls
between; torch's products are for many rows and its operations are many calls. Here a product reads each weight once,
for all rows, on all threads; weights of 8 bits become float32 in the register. Everything is float32.

Importing this module imports numba; `model.kernels.ready` does so, beside whatever else is going on.
"""

import math

import numpy as np
from numba import njit, prange

# Sums may be taken in another order; NaN and infinity stay what they are.
FAST = {"fastmath": {"reassoc", "nsz", "contract", "arcp"}, "error_model": "numpy"}
ZERO, ONE = np.float32(0), np.float32(1)

_ROW, _ROWS, _TEXTS = "float32[::1]", "float32[:, ::1]", "float32[:, :, ::1]"
_HEADS = "float32[:, :, :, ::1]"
_PRODUCT = [f"void({_ROWS}, {kind}[:, ::1], {_ROW}, {_ROW}, {_ROWS}, int64)" for kind in ("float32", "int8")]
_NORM = f"void({_ROWS}, {_ROW}, {_ROW}, float32, boolean, {_ROWS})"
_ATTENTION = f"void({_TEXTS}, {_HEADS}, {_HEADS}, int64, {_ROWS}, {_ROWS}, {_ROW}, {_ROW}, float32, {_TEXTS})"


@njit(**FAST)
def _dot(w, x):
    """w . x. [in], [in] -> one number"""
    total = ZERO
    for i in range(len(x)):
        total += np.float32(w[i]) * x[i]
    return total


@njit(**FAST)
def _dot4(w, a, b, c, d):
    """w . a, w . b, w . c and w . d: four sums while a weight is at hand."""
    ya, yb, yc, yd = ZERO, ZERO, ZERO, ZERO
    for i in range(len(a)):
        each = np.float32(w[i])
        ya += each * a[i]
        yb += each * b[i]
        yc += each * c[i]
        yd += each * d[i]
    return ya, yb, yc, yd


@njit(**FAST)
def _outputs(x, weight, scale, bias, y, start, stop):
    """The outputs start .. stop - 1 of a product."""
    n = len(x)
    for j in range(start, stop):
        w, by, plus = weight[j], ONE, ZERO
        if len(scale):
            by = scale[j]
        if len(bias):
            plus = bias[j]
        row = 0
        while row + 4 <= n:
            a, b, c, d = _dot4(w, x[row], x[row + 1], x[row + 2], x[row + 3])
            y[row, j], y[row + 1, j] = a * by + plus, b * by + plus
            y[row + 2, j], y[row + 3, j] = c * by + plus, d * by + plus
            row += 4
        while row < n:
            y[row, j] = _dot(w, x[row]) * by + plus
            row += 1


@njit(_PRODUCT, **FAST, cache=True)
def product_alone(x, weight, scale, bias, y, threads):
    """y = (x W^T) * scale + b on one thread. x [n, in], weight [out, in], scale and bias [out] or empty, y [n, out]."""
    _outputs(x, weight, scale, bias, y, 0, len(weight))


@njit(_PRODUCT, parallel=True, **FAST, cache=True)
def product(x, weight, scale, bias, y, threads):
    """The same; each of the threads has some of the outputs."""
    outputs = len(weight)
    for part in prange(threads):
        _outputs(x, weight, scale, bias, y, outputs * part // threads, outputs * (part + 1) // threads)


@njit(_NORM, **FAST, cache=True)
def norm(x, gain, bias, eps, centred, y):
    """LayerNorm (centred) or RMSNorm of each row. x [n, D], gain [D], bias [D] or empty, y [n, D]."""
    width = np.float32(x.shape[1])
    for row in range(len(x)):
        mean, square = ZERO, ZERO
        if centred:
            for i in range(x.shape[1]):
                mean += x[row, i]
            mean /= width
        for i in range(x.shape[1]):
            square += (x[row, i] - mean) * (x[row, i] - mean)
        by = ONE / np.float32(math.sqrt(square / width + eps))
        for i in range(x.shape[1]):
            y[row, i] = (x[row, i] - mean) * by * gain[i]
        if len(bias):
            for i in range(x.shape[1]):
                y[row, i] += bias[i]


@njit(**FAST)
def _placed(head, gain, eps, cos, sin, y):
    """A query or key: normed where there is a gain, and its pairs turned by their angles. head, y [E], cos, sin [R]"""
    by, half = ONE, len(cos)
    if len(gain):
        by = ONE / np.float32(math.sqrt(_dot(head, head) / np.float32(len(head)) + eps))
    for i in range(len(head)):
        y[i] = head[i] * by
    if len(gain):
        for i in range(len(head)):
            y[i] *= gain[i]
    for i in range(half):
        first, second = y[i], y[half + i]
        y[i] = first * cos[i] - second * sin[i]
        y[half + i] = second * cos[i] + first * sin[i]


@njit(**FAST)
def _attend(q, k, v, scores, y):
    """softmax(q . k / sqrt(E)) . v of one head. q, y [E], k and v [S, E]; scores [S] are written over."""
    by = ONE / np.float32(math.sqrt(np.float32(len(q))))
    for s in range(len(k)):
        scores[s] = _dot(k[s], q) * by
    largest, mass = scores[0], ZERO
    for s in range(1, len(k)):
        largest = max(largest, scores[s])
    for i in range(len(y)):
        y[i] = ZERO
    for s in range(len(k)):
        weight = np.float32(math.exp(scores[s] - largest))
        mass += weight
        for i in range(len(y)):
            y[i] += weight * v[s, i]
    for i in range(len(y)):
        y[i] /= mass


@njit(**FAST)
def _group(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z, g):
    """One key and value head of one text, and the query heads that read it; the rest is `attention`'s."""
    G, E = len(keys), keys.shape[2]
    T, H = len(qkv), z.shape[1] // E
    share, query, scores = H // G, np.empty(E, np.float32), np.empty(start + T, np.float32)
    for t in range(T):
        end = start + t
        _placed(qkv[t, (H + g) * E : (H + g + 1) * E], k_gain, eps, cos[t], sin[t], keys[g, end])
        for i in range(E):  # an assignment of slices takes seconds to compile
            values[g, end, i] = qkv[t, (H + G + g) * E + i]
        for h in range(g * share, (g + 1) * share):
            _placed(qkv[t, h * E : (h + 1) * E], q_gain, eps, cos[t], sin[t], query)
            _attend(query, keys[g, : end + 1], values[g, : end + 1], scores[: end + 1], z[t, h * E : (h + 1) * E])


@njit(_ATTENTION, **FAST, cache=True)
def attention_alone(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z):
    """The heads' outputs of T new tokens of each of B texts, on one thread; keys and values are put into the cache.

    qkv [B, T, (H + 2 G) E], keys and values [B, G, S, E] filled up to `start`, cos and sin [T, R] (R = 0: no rotation),
    gains [E] or empty, z [B, T, H E].
    """
    G = keys.shape[1]
    for each in range(len(keys) * G):
        b, g = each // G, each % G
        _group(qkv[b], keys[b], values[b], start, cos, sin, q_gain, k_gain, eps, z[b], g)


@njit(_ATTENTION, parallel=True, **FAST, cache=True)
def attention(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z):
    """The same; each of the threads has some of the key and value heads."""
    G = keys.shape[1]
    for each in prange(len(keys) * G):
        b, g = each // G, each % G
        _group(qkv[b], keys[b], values[b], start, cos, sin, q_gain, k_gain, eps, z[b], g)
