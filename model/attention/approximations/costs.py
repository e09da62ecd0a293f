"""Operations and bytes of one head by formula: softmax attention and its replacements, over T tokens.

Operations are those of products and running sums, a multiplication and an addition each; exponentials, norms and
divisions are left out. Causal: token i reads only earlier tokens and itself. q, k and v cost the same for all.
"""

from model.attention.approximations.low_rank import ITERATIONS
from model.attention.approximations.ways import Way
from model.public import public, whole

ITEM = 4  # bytes of a float32
_FAR = 1 << 40  # the longest prompt of a formula


@public(T=whole(1, _FAR), E=whole(1))
def softmax_operations(T: int, E: int) -> int:
    """Return the operations of q.k and its weight times v for T (T + 1) / 2 pairs. Vaswani et al. 2017, table 1."""
    return 2 * E * T * (T + 1)


@public(T=whole(1, _FAR), E=whole(1))
def operations(way: Way, T: int, E: int) -> int:
    """Return the operations of the causal form that is computed here, for a prompt of T tokens and d_head E.

    Feature maps: S += phi(k) v^T and s += phi(k), then phi(q) S and phi(q).s; with w.q and w.k for random features.
    Linformer: E K and F V token by token, then a score and a mix for each projected key. Nystromformer: all of it for
    each query, since its landmarks are means of the tokens which that query has read.
    """
    m = size_of(way, T, E)
    if way.method in ("performer", "linear"):
        products = 4 * m * E if way.method == "performer" else 0
        return T * (products + 4 * m * E + 3 * m)
    if way.method == "linformer":
        read = 2 * E if way.projection == "mean" else 4 * m * E
        return T * (read + 4 * m * E)
    each = 4 * m * E + 2 * m * m * E + _inverse(m) + 2 * m * m
    return T * each + (T * (T + 1) // 2) * (2 * m * E + 2 * m + 2 * E)


def published_operations(way: Way, T: int, E: int) -> int:
    """Return the operations of the published, non-causal form, in which every token reads all: one pass over a text."""
    m = size_of(way, T, E)
    if way.method == "nystrom":
        return 8 * T * m * E + 4 * m * m * E + _inverse(m)
    return operations(way, T, E)


def softmax_bytes(T: int, E: int) -> int:
    """Return the bytes of T tokens' keys and values in float32, which generating the next token reads."""
    return ITEM * 2 * T * E


def state_bytes(way: Way, T: int, E: int) -> int:
    """Return the bytes that generating the next token reads instead, in float32; only Nystromformer needs all keys and
    values.
    """
    m = size_of(way, T, E)
    if way.method in ("performer", "linear"):
        return ITEM * m * (E + 1)
    if way.method == "linformer":
        return ITEM * 2 * m * E
    return softmax_bytes(T, E) + ITEM * T * E  # queries, too: landmarks are means of them


def size_of(way: Way, T: int, E: int) -> int:
    """Return the number of features, projected keys or landmarks: d_head for linear attention; means cover at least one
    token.
    """
    if way.method == "linear":
        return E
    return min(way.size, T) if way.method == "nystrom" or way.projection == "mean" else way.size


def _inverse(m: int) -> int:
    """Return the operations of one iteration: four products of m x m matrices."""
    return ITERATIONS * 8 * m**3


def cheaper_from(way: Way, E: int) -> int | None:
    """Return the shortest prompt length from which the method takes fewer operations than softmax; None if it never
    does.
    """
    if operations(way, _FAR, E) >= softmax_operations(_FAR, E):
        return None
    low, high = 0, _FAR  # dearer or equal, cheaper
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if operations(way, middle, E) < softmax_operations(middle, E) else (middle, high)
    return high
