"""The savings of restricted attention: query-key pairs, operations and bytes, computed by formula for any length."""

from dataclasses import dataclass

import numpy as np

from model.forgetting.policies import Policy, globals_of, stride_of
from model.gpt.config import ModelConfig
from model.public import public, whole

FLOAT = 4  # bytes per number in the cache
LENGTHS = (1_024, 8_192, 65_536, 1_048_576)


@dataclass(frozen=True)
class ReadingCost:
    """The cost of reading a text of T tokens."""

    pairs: int  # number of query-key pairs per head
    operations: float  # multiplications and additions of all heads' scores and weighted sums
    cache: int  # bytes of keys and values at the end, all layers


@public(T=whole(0, 1 << 24))
def seen_by(policy: Policy | None, T: int) -> np.ndarray:
    """Return the number of keys visible to each query, the row sums of the mask; None means full attention.
    int64 [T]
    """
    t = np.arange(T, dtype=np.int64)
    if policy is None:
        return t + 1
    n, near = policy.budget, np.minimum(t + 1, policy.budget)
    if policy.kind in ("window", "first", "h2o"):
        return near
    if policy.kind == "dilated":
        return np.minimum(t // policy.dilation + 1, n)
    if policy.kind == "block":
        return t % n + 1
    if policy.kind == "strided":
        window, stride = stride_of(policy, T)
        return np.minimum(t + 1, window) + np.maximum(t - window + 1, 0) // stride
    if policy.kind == "snapkv":
        end = min(max(1, round(policy.read * T)), T)
        return np.where((t < end) | (n >= end), t + 1, n + t - end + 1)
    return _with_global(policy, t)


def _with_global(policy: Policy, t: np.ndarray) -> np.ndarray:
    """Return the number of keys visible to each query under a window with global tokens,
    plus random keys for BigBird.
    """
    T, n = len(t), policy.budget
    most = n // 2 if policy.kind == "longformer" else n // 4
    chosen = np.array(globals_of(policy, T, most), dtype=np.int64)
    window = n - len(chosen) if policy.kind == "longformer" else max(1, n // 2)
    seen = np.minimum(t + 1, window) + np.searchsorted(chosen, t - window, side="right")
    if policy.kind == "bigbird":
        seen = np.minimum(seen + max(0, n - window - len(chosen)), t + 1)
    seen[chosen] = chosen + 1
    return seen


@public(T=whole(0, 1 << 24))
def cost_of(config: ModelConfig, policy: Policy | None, T: int) -> ReadingCost:
    """Compute the cost by formula.

    4 d_head operations per pair and head (q.k and the weighted sum), and 2 d_head numbers per cached key. The softmax,
    the choice of keys to evict, and all other layers are not counted.
    """
    pairs = int(seen_by(policy, T).sum())
    per_key = 2 * config.n_layer * config.n_kv_head * config.d_head * FLOAT
    operations = 4.0 * config.d_head * config.n_head * config.n_layer * pairs
    return ReadingCost(pairs, operations, per_key * cached(policy, T))


@public(T=whole(0, 1 << 24))
def cached(policy: Policy | None, T: int) -> int:
    """Return the number of keys in the cache of one layer after T tokens: those visible to the last query or a later
    one.

    None means full attention. The last query counts, so that a window of n tokens holds n keys. A later query t follows
    row t of `mask_of(policy, t + 1)`; the strided pattern keeps its stride for T tokens. H2O and SnapKV hold the keys
    they have selected.
    """
    if policy is None or T == 0:
        return T
    n = policy.budget
    if policy.kind in ("window", "first", "h2o"):
        return min(n, T)
    if policy.kind == "dilated":
        return min((n - 1) * policy.dilation + 1, T)
    if policy.kind == "block":
        return (T - 1) % n + 1
    if policy.kind == "snapkv":
        end = min(max(1, round(policy.read * T)), T)
        return T if n >= end else n + T - end
    if policy.kind == "strided":
        window, stride = stride_of(policy, T)
        return min(T, window + max(0, T - window) // stride)
    if policy.kind == "longformer":
        return _cached_with_global(policy, T)
    return T if n > 1 else 1  # BigBird: any key may be a random key of a later query, if the budget allows any


def _cached_with_global(policy: Policy, T: int) -> int:
    """Return the number of cached keys for a window with global tokens: all T if the last token or a later one is
    global.

    A later token is global if it is among the first named ones up to its position; if none is named up to its position,
    the first tokens of the text are global.
    """
    most, later = policy.budget // 2, [at for at in policy.global_at if at >= T]
    last = globals_of(policy, T, most)
    if T - 1 in last or any(at in globals_of(policy, at + 1, most) for at in later):
        return T
    window = policy.budget - len(last)
    return min(T, window) + sum(at < T - window for at in last)


@public(n_weights=whole(0, 1 << 50), T=whole(0, 1 << 50))
def other_operations(n_weights: int, T: int) -> float:
    """Return the operations of the blocks' weight matrices, 2 per weight and token, on which restricted attention saves
    nothing.
    """
    return 2.0 * n_weights * T
