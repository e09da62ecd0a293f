"""Caches that evict keys while a text is read: which key is evicted, and when.

The cache of one layer holds the keys of G heads. Query t reads the keys that remain; if the cache is then full, one of
them is permanently evicted to make room for t + 1. `gone[t]` is the first query to which the key of token t is no
longer visible, or T if the key stays.

H2O, "heavy hitters" (Zhang et al. 2023, algorithm 1): half of the budget holds the latest tokens; among the others, the
key with the smallest accumulated weight is evicted. SnapKV (Li et al. 2024, section 4): nothing is evicted before the
end of the prompt. There, the weights of the last queries are votes, which are averaged over neighboring keys; the keys
with the most votes stay, together with the last queries' own keys.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from model.forgetting.policies import CACHES, POLICIES, Policy, mask_of
from model.public import array, public

POOL = 5  # number of neighboring keys over which SnapKV averages votes, odd
MOST_VOTERS = 16  # maximum number of queries that vote in SnapKV


def visible(gone: Tensor, T: int) -> Tensor:
    """Compute which keys are visible to each query, given the eviction times. gone [..., S] -> bool [..., T, S]"""
    query = torch.arange(T)[:, None]
    return (query >= torch.arange(gone.shape[-1])) & (query < gone[..., None, :])


@public(scores=array("B G R T S", finite=False))
def read_through(policy: Policy, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the attention weights of a layer under a policy [B, G, R, T, T], and the mask of the keys visible to each
    query.

    `scores` [B, G, R, T, T] are q.k / sqrt(d_head), -inf for future keys; R query heads share a KV head. The mask is
    bool [T, T] if it is the same for all, else [B, G, 1, T, T].
    """
    T = scores.shape[-1]
    if POLICIES[policy.kind].mask is not None:
        seen = mask_of(policy, T)
        return _softmax(scores, seen), seen
    gone = _snapkv(policy, scores) if policy.kind == "snapkv" else _heavy_hitters(policy, scores)
    seen = visible(gone, T)[:, :, None]
    return _softmax(scores, seen), seen


def gone_of(seen: Tensor) -> Tensor:
    """Compute each key's eviction time from the mask of visible keys, for a policy of CACHES. bool [..., T, S] -> int64
    [..., S]
    """
    return torch.arange(seen.shape[-1]) + seen.sum(-2)  # a key is visible without gaps from its own position


def may_forget(policy: Policy) -> bool:
    """Return whether a cache can implement the policy, which requires that no evicted key is needed again."""
    return policy.kind in CACHES


def _softmax(scores: Tensor, seen: Tensor) -> Tensor:
    return scores.masked_fill(~seen, -math.inf).softmax(-1)


def _heavy_hitters(policy: Policy, scores: Tensor) -> Tensor:
    """Compute the time at which H2O evicts each key, from the weights under eviction.

    scores [B, G, R, T, T] -> int64 [B, G, S]
    """
    B, G, _, T, _ = scores.shape
    gone = torch.full((B, G, T), T)
    n = policy.budget
    if n >= T:
        return gone
    recent = max(1, n - n // 2)  # number of latest tokens that stay
    start = scores[..., :n, :n].softmax(-1).sum((2, 3))  # [B, G, n], nothing is evicted before query n
    mass = torch.zeros(B, G, T)  # accumulated weight of each key
    mass[..., :n] = start
    absent = torch.zeros(B, G, T, dtype=torch.bool)
    for t in range(n - 1, T - 1):
        if t >= n:
            row = scores[..., t, : t + 1].masked_fill(absent[..., None, : t + 1], -math.inf).softmax(-1)
            mass[..., : t + 1] += row.sum(2)
        old = max(1, t + 2 - recent)  # query t + 1 must see the latest `recent` tokens, including itself
        weakest = mass[..., :old].masked_fill(absent[..., :old], math.inf).argmin(-1, keepdim=True)  # [B, G, 1]
        absent.scatter_(-1, weakest, True)
        gone.scatter_(-1, weakest, t + 1)
    return gone


def _snapkv(policy: Policy, scores: Tensor) -> Tensor:
    """Compute the time at which SnapKV evicts each key: the end of the prompt, or never.

    scores [B, G, R, T, T] -> int64 [B, G, S]
    """
    B, G, _, T, _ = scores.shape
    end, gone = prompt_end(policy, T), torch.full((B, G, T), T)
    if policy.budget >= end:
        return gone
    kept = snap_keep(policy, scores[..., :end, :end].softmax(-1))
    gone[..., :end].masked_fill_(~kept, end)
    return gone


def prompt_end(policy: Policy, T: int) -> int:
    """Return the number of tokens of a text of T tokens that count as the prompt."""
    return min(max(1, round(policy.read * T)), T)


def snap_keep(policy: Policy, weights: Tensor) -> Tensor:
    """Select the keys that SnapKV keeps at the end of a prompt of P tokens. [B, G, R, Q, P] -> bool [B, G, P]

    The weights are those of the last Q queries of the prompt, which include at least all voters. `budget` keys stay,
    including the voters' own keys.
    """
    P, n = weights.shape[-1], policy.budget
    if n >= P:
        return torch.ones(*weights.shape[:2], P, dtype=torch.bool)
    voters = min(MOST_VOTERS, max(1, n // 2))
    votes = weights[..., -voters:, : P - voters].sum((2, 3))  # [B, G, P - voters]
    shared = F.avg_pool1d(votes, POOL, 1, POOL // 2, count_include_pad=False) if votes.shape[-1] else votes
    keep = torch.zeros(*votes.shape[:2], P, dtype=torch.bool)
    keep.scatter_(-1, shared.topk(n - voters, -1).indices, True)
    keep[..., P - voters :] = True
    return keep
