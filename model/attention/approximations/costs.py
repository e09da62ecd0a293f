"""Operations and bytes of one head by formula, for softmax attention and its approximations, over T tokens.

Operations are those of products and running sums, counting multiplications and additions separately; exponentials,
norms and divisions are omitted. Attention is causal: token i attends only to itself and earlier tokens. q, k and v cost
the same for all methods and are not counted.
"""

from model.attention.approximations.low_rank import ITERATIONS
from model.attention.approximations.ways import Way
from model.public import public, whole

ITEM = 4  # bytes of a float32
_FAR = 1 << 40  # maximum prompt length of the formulas


@public(T=whole(1, _FAR), E=whole(1))
def softmax_operations(T: int, E: int) -> int:
    """Count the operations of q.k and of weight times v over the T (T + 1) / 2 causal pairs. Vaswani et al. 2017, table
    1.
    """
    return 2 * E * T * (T + 1)


@public(T=whole(1, _FAR), E=whole(1))
def operations(way: Way, T: int, E: int) -> int:
    """Count the operations of the causal form implemented here, for a prompt of T tokens and d_head E.

    Feature maps: S += phi(k) v^T and s += phi(k), then phi(q) S and phi(q).s, plus w.q and w.k for random features.
    Linformer: E K and F V token by token, then a score and a mix for each projected key. Nystromformer: the complete
    computation for each query, since its landmarks are means over the tokens up to that query.
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
    """Count the operations of the published, non-causal form, in which all tokens attend to all tokens, for one pass
    over a text.
    """
    m = size_of(way, T, E)
    if way.method == "nystrom":
        return 8 * T * m * E + 4 * m * m * E + _inverse(m)
    return operations(way, T, E)


def softmax_bytes(T: int, E: int) -> int:
    """Return the bytes of T tokens' keys and values in float32, which are read to generate the next token."""
    return ITEM * 2 * T * E


def state_bytes(way: Way, T: int, E: int) -> int:
    """Return the bytes of float32 state that the method reads to generate the next token; only Nystromformer needs all
    keys and values.
    """
    m = size_of(way, T, E)
    if way.method in ("performer", "linear"):
        return ITEM * m * (E + 1)
    if way.method == "linformer":
        return ITEM * 2 * m * E
    return softmax_bytes(T, E) + ITEM * T * E  # also queries, since landmarks include their means


def size_of(way: Way, T: int, E: int) -> int:
    """Return the effective number of features, projected keys or landmarks: d_head for linear attention; at most T for
    means of tokens.
    """
    if way.method == "linear":
        return E
    return min(way.size, T) if way.method == "nystrom" or way.projection == "mean" else way.size


def _inverse(m: int) -> int:
    """Count the operations of the iterative pseudoinverse: four products of m x m matrices per iteration."""
    return ITERATIONS * 8 * m**3


def cheaper_from(way: Way, E: int) -> int | None:
    """Return the shortest prompt length at which the method takes fewer operations than softmax; None
    if it never does.
    """
    if operations(way, _FAR, E) >= softmax_operations(_FAR, E):
        return None
    low, high = 0, _FAR  # not cheaper, cheaper
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if operations(way, middle, E) < softmax_operations(middle, E) else (middle, high)
    return high
