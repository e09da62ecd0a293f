"""The loops of a decode step, compiled by numba for this CPU.

A step has few rows, one per text being generated. Its time is spent on reading the weights and on call overhead:
torch's products are optimized for many rows, and its operations require many calls. Here a product reads each weight
once, for all rows, on all threads; 8-bit weights and codes in strips are converted to float32 in registers. All
arithmetic is float32. Importing this module imports numba; `model.kernels.ready` does so in the background.
"""

import math

import numpy as np
from numba import njit, prange

from model.kernels import strips
from model.kernels.row_sums import row_sums as row_sums  # compiled with the rest
from model.kernels.strips import FAST, ZERO

HALF, ONE = np.float32(0.5), np.float32(1)
ROOT_HALF, ROOT_2_PI, CUBE = np.float32(math.sqrt(0.5)), np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)

_ROW, _ROWS, _TEXTS, _HEADS = (f"float32[{':, ' * n}::1]" for n in range(4))
# Weight and scale in float32, in 8 bits with a scale for each output, and in strips of integers or bfloat16.
_KINDS = f"{_ROWS}, {_ROW}", f"int8[:, ::1], {_ROW}", f"int8[:, :, ::1], {_HEADS}", f"uint16[:, :, ::1], {_HEADS}"
_MATRICES = [f"{kind}, {_ROW}" for kind in _KINDS]
_NORM = f"{_ROW}, {_ROW}, float32, boolean"  # gain, bias, eps and `centered`
_ATTENTION = f"void({_TEXTS}, {_HEADS}, {_HEADS}, int64, {_ROWS}, {_ROWS}, {_ROW}, {_ROW}, float32, {_TEXTS}, int64)"
RELU, GELU, GELU_TANH, SWIGLU = range(4)  # in the order of model.gpt.layers.MLPS
# e^x = 2^-k e^r with an integer k and r = x + k ln 2, |r| <= (ln 2) / 2 (Cody and Waite 1980, chapter 6). ln 2 is split
# into two parts, the first with so few digits that its product with k is exact.
PER_LN_2, LN_2, LN_2_REST = 1 / math.log(2), float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
HALVES = 0.5 ** np.arange(1100)  # 2^-k, which is 0 for k > 1,074
SERIES = tuple(1 / math.factorial(n) for n in range(14))  # Taylor coefficients of e^r
LEAST = -750.0  # its exp is 0 in float64
TOGETHER = 64  # number of logits per block in the search for the largest


@njit(**FAST)
def _dot(w, x):
    """Compute the dot product w . x. [in], [in] -> scalar"""
    total = ZERO
    for i in range(len(x)):
        total += np.float32(w[i]) * x[i]
    return total


@njit(**FAST)
def _dot4(w, v, u, t, x):
    """Compute the dot products of four rows of weights with x, reading them at the same time."""
    yw, yv, yu, yt = ZERO, ZERO, ZERO, ZERO
    for i in range(len(x)):
        yw += np.float32(w[i]) * x[i]
        yv += np.float32(v[i]) * x[i]
        yu += np.float32(u[i]) * x[i]
        yt += np.float32(t[i]) * x[i]
    return yw, yv, yu, yt


@njit(**FAST)
def _dot8(w, v, u, t, a, b):
    """Compute the four dot products with `a` and with `b`, so that each weight is read once for two sums."""
    wa, va, ua, ta, wb, vb, ub, tb = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    for i in range(len(a)):
        wi, vi, ui, ti = np.float32(w[i]), np.float32(v[i]), np.float32(u[i]), np.float32(t[i])
        wa += wi * a[i]
        va += vi * a[i]
        ua += ui * a[i]
        ta += ti * a[i]
        wb += wi * b[i]
        vb += vi * b[i]
        ub += ui * b[i]
        tb += ti * b[i]
    return wa, va, ua, ta, wb, vb, ub, tb


@njit(**FAST)
def _outputs(x, weight, scale, bias, y, start, stop):
    """Compute the outputs start .. stop - 1 of a product.

    The weights are read at four distant locations in parallel, so that a core waits for several memory accesses at once
    instead of one after the other.
    """
    n, apart = len(x), (stop - start) // 4
    for j in range(start, start + apart):
        k, l, m = j + apart, j + 2 * apart, j + 3 * apart
        w, v, u, t = weight[j], weight[k], weight[l], weight[m]
        for row in range(0, n - 1, 2):
            after = row + 1
            y[row, j], y[row, k], y[row, l], y[row, m], y[after, j], y[after, k], y[after, l], y[after, m] = _dot8(
                w, v, u, t, x[row], x[after]
            )
        if n % 2:
            row = n - 1
            y[row, j], y[row, k], y[row, l], y[row, m] = _dot4(w, v, u, t, x[row])
    for j in range(start + 4 * apart, stop):
        for row in range(n):
            y[row, j] = _dot(weight[j], x[row])
    for row in range(n):
        if len(scale):
            for j in range(start, stop):
                y[row, j] *= scale[j]
        if len(bias):
            for j in range(start, stop):
                y[row, j] += bias[j]


@njit(**FAST)
def _count(weight):
    """Return the number of outputs of a matrix."""
    return len(weight) * weight.shape[2] if weight.ndim == 3 else len(weight)


@njit(**FAST)
def _share(x, weight, scale, bias, y, part, parts):
    """Compute one of `parts` parts of a product's outputs.

    A part ends only between strips, or between groups of four outputs, so the results are the same for any number of
    parts.
    """
    if weight.ndim == 3:
        strips.outputs(x, weight, scale, bias, y, len(weight) * part // parts, len(weight) * (part + 1) // parts)
    else:
        fours = len(weight) // 4
        stop = len(weight) if part == parts - 1 else fours * (part + 1) // parts * 4
        _outputs(x, weight, scale, bias, y, fours * part // parts * 4, stop)


@njit([f"void({_ROWS}, {each}, {_ROWS}, int64)" for each in _MATRICES], parallel=True, **FAST, cache=True)
def _product(x, weight, scale, bias, y, threads):
    for part in prange(threads):
        _share(x, weight, scale, bias, y, np.int64(part), threads)  # with a single type of `part`, it is compiled once


@njit([f"void({_ROWS}, {each}, {_ROWS}, int64)" for each in _MATRICES], **FAST, cache=True)
def product(x, weight, scale, bias, y, threads):
    """Compute y = x W^T + b, with the outputs divided among the threads. x [n, in], bias [out] or empty, y [n, out].

    W is `weight` [out, in] if `scale` is empty, `weight` times one scale per output [out], or given in strips.
    """
    if threads == 1:
        _share(x, weight, scale, bias, y, np.int64(0), np.int64(1))
    else:
        _product(x, weight, scale, bias, y, threads)


@njit(f"void({_ROWS}, {_NORM}, {_ROWS})", **FAST, cache=True)
def norm(x, gain, bias, eps, centered, y):
    """Apply LayerNorm (centered) or RMSNorm to each row. x [n, D], gain [D], bias [D] or empty, y [n, D]."""
    width = np.float32(x.shape[1])
    for row in range(len(x)):
        mean, square = ZERO, ZERO
        if centered:
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


@njit(f"void({_ROWS}, int64, {_ROWS})", **FAST, cache=True)
def activate(up, act, y):
    """Apply the MLP's activation; `act` is one of RELU .. SWIGLU. up [n, M], or [n, 2 M] with a gate; y [n, M]."""
    width = y.shape[1]
    for row in range(len(y)):
        for i in range(width):
            x = up[row, i]
            if act == RELU:
                y[row, i] = max(x, ZERO)
            elif act == GELU:
                y[row, i] = HALF * x * (ONE + np.float32(math.erf(x * ROOT_HALF)))
            elif act == GELU_TANH:
                y[row, i] = HALF * x * (ONE + np.float32(math.tanh(ROOT_2_PI * (x + CUBE * x * x * x))))
            else:
                y[row, i] = x / (ONE + np.float32(math.exp(-x))) * up[row, width + i]


@njit([f"void({_ROWS}, boolean, {_NORM}, {each}, {_ROWS}, int64)" for each in _MATRICES], **FAST, cache=True)
def read(x, normed, gain, bias, eps, centered, weight, scale, plus, y, threads):
    """Compute a product of the stream, normalized first if `normed`: queries, keys and values, or logits. x [n, D], y
    [n, out].
    """
    if normed:
        h = np.empty_like(x)
        norm(x, gain, bias, eps, centered, h)
        product(h, weight, scale, plus, y, threads)
    else:
        product(x, weight, scale, plus, y, threads)


@njit(
    [
        f"void({_ROWS}, {_ROWS}, {each}, {_NORM}, {_NORM}, {each}, int64, {each}, boolean, boolean, int64)"
        for each in _MATRICES
    ],
    **FAST,
    cache=True,
)
def write(
    x, z,
    o, o_scale, o_bias,
    gain1, bias1, eps1, centered1,
    gain2, bias2, eps2, centered2,
    up, up_scale, up_bias, act,
    down, down_scale, down_bias,
    post, parallel, threads,
):  # fmt: skip
    """Compute the rest of a layer, and update the stream x [n, D] in place: z [n, H E] through o, then the MLP.

    The wiring is that of model.gpt.transformer.Block: with `post` the sums are normalized; with `parallel` the MLP has
    the same input as the attention.
    """
    attended, hidden, added = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    inner, width = np.empty((len(x), _count(up)), np.float32), down.shape[1]
    product(z, o, o_scale, o_bias, attended, threads)
    for row in range(len(x)):
        for i in range(x.shape[1]):
            attended[row, i] += x[row, i]
    if post:
        norm(attended, gain1, bias1, eps1, centered1, hidden)
    elif parallel:
        norm(x, gain2, bias2, eps2, centered2, hidden)
    else:
        norm(attended, gain2, bias2, eps2, centered2, hidden)
    product(hidden, up, up_scale, up_bias, inner, threads)
    between = np.empty((len(x), width), np.float32)
    activate(inner, act, between)
    product(between, down, down_scale, down_bias, added, threads)
    if post:
        for row in range(len(x)):
            for i in range(x.shape[1]):
                added[row, i] += hidden[row, i]
        norm(added, gain2, bias2, eps2, centered2, x)
    else:
        for row in range(len(x)):
            for i in range(x.shape[1]):
                x[row, i] = attended[row, i] + added[row, i]


@njit(**FAST)
def _placed(head, gain, eps, cos, sin, y):
    """Normalize a query or key if there is a gain, and rotate its pairs by their angles. head, y [E], cos, sin [R]."""
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
    """Compute softmax(q . k / sqrt(E)) . v of one head. q, y [E], k and v [S, E]; scores [S] is scratch space."""
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
    """Compute one KV head of one text, and the query heads that use it. Arguments as in `attention`."""
    G, E = len(keys), keys.shape[2]
    T, H = len(qkv), z.shape[1] // E
    share, query, scores = H // G, np.empty(E, np.float32), np.empty(start + T, np.float32)
    for t in range(T):
        end = start + t
        _placed(qkv[t, (H + g) * E : (H + g + 1) * E], k_gain, eps, cos[t], sin[t], keys[g, end])
        for i in range(E):  # a slice assignment would take seconds to compile
            values[g, end, i] = qkv[t, (H + G + g) * E + i]
        for h in range(g * share, (g + 1) * share):
            _placed(qkv[t, h * E : (h + 1) * E], q_gain, eps, cos[t], sin[t], query)
            _attend(query, keys[g, : end + 1], values[g, : end + 1], scores[: end + 1], z[t, h * E : (h + 1) * E])


@njit(_ATTENTION, parallel=True, **FAST, cache=True)
def _attention(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z, threads):
    G = keys.shape[1]
    for each in prange(len(keys) * G):
        b, g = each // G, each % G
        _group(qkv[b], keys[b], values[b], start, cos, sin, q_gain, k_gain, eps, z[b], g)


@njit(_ATTENTION, **FAST, cache=True)
def attention(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z, threads):
    """Compute the heads' outputs for T new tokens of each of B texts, and append their keys and values to the cache.

    qkv [B, T, (H + 2 G) E], keys and values [B, G, S, E] filled up to `start`, cos and sin [T, R] (R = 0: no rotation),
    gains [E] or empty, z [B, T, H E]. The KV heads are divided among the threads.
    """
    G = keys.shape[1]
    if threads > 1:
        _attention(qkv, keys, values, start, cos, sin, q_gain, k_gain, eps, z, threads)
    else:
        for each in range(len(keys) * G):
            b, g = each // G, each % G
            _group(qkv[b], keys[b], values[b], start, cos, sin, q_gain, k_gain, eps, z[b], g)


@njit(error_model="numpy", fastmath={"contract"})  # the order of sums is unchanged
def _exp(x):
    """Compute e^x for x from LEAST to 0, to float64 precision. Unlike math.exp, it is vectorized."""
    k = np.floor(0.5 - x * PER_LN_2)
    r = (x + k * LN_2) + k * LN_2_REST
    total = SERIES[13]
    for n in range(12, -1, -1):
        total = total * r + SERIES[n]
    return total * HALVES[np.int32(k)]


@njit(**FAST)
def _largest(row, values, ids):
    """Find the n largest numbers of a row and their indices, in decreasing order, with ties by the smaller index.
    values, ids [n].
    """
    n, count = len(ids), 0
    for start in range(0, len(row), TOGETHER):
        end, most = min(start + TOGETHER, len(row)), row[start]
        for i in range(start, end):
            most = max(most, row[i])
        if count == n and most <= values[n - 1]:
            continue
        for i in range(start, end):
            if count == n and row[i] <= values[n - 1]:
                continue
            at = min(count, n - 1)
            while at and row[i] > values[at - 1]:
                values[at], ids[at] = values[at - 1], ids[at - 1]
                at -= 1
            values[at], ids[at] = row[i], i
            count = min(count + 1, n)


@njit(f"void({_ROWS}, float64[:, ::1], int64[:, ::1])", **FAST, cache=True)
def survey(logits, sums, top):
    """Compute, for each row x, the statistics of its softmax in float64 and the indices of its largest numbers.

    The statistics are max, sum e^(x - max) and sum e^(x - max) (x - max). logits [n, V], sums [n, 3], top [n, TOP]. All
    three are NaN if any number of the row is NaN.
    """
    values = np.empty(top.shape[1], np.float32)
    for row in range(len(logits)):
        x, broken = logits[row], False
        for i in range(len(x)):
            broken |= x[i] != x[i]
        if broken:
            sums[row, 0], sums[row, 1], sums[row, 2] = np.nan, np.nan, np.nan
            continue
        _largest(x, values, top[row])
        largest, mass, spread = np.float64(values[0]), 0.0, 0.0
        for i in range(len(x)):
            below = np.float64(x[i]) - largest
            below = below if below > LEAST else LEAST
            share = _exp(below)
            mass += share
            spread += share * below
        sums[row, 0], sums[row, 1], sums[row, 2] = largest, mass, spread
