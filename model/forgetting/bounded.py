"""Generation with a cache of bounded size: the prompt is read in full, then keys are evicted down to the budget.

After that, every new token evicts an earlier key. Evicted keys are only masked, so that one batch can hold texts with
different policies; the results equal those of a cache that actually drops them.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.forgetting.eviction import snap_keep
from model.forgetting.policies import Policy
from model.gpt.layers import attention_pattern, attention_scores, fused_attention, mix

_VOTERS = 16  # number of last queries of the prompt whose weights are stored as votes


class BoundedMemory:
    """An attention function for decoding that keeps each text's cache within its budget. A policy of None evicts
    nothing.

    Pass it as `attend` to every forward pass over one cache: first the prompt [1, T], then one token per row. Before
    each pass that continues the texts, call `follow` with the rows that continue.
    """

    def __init__(self, policies: Sequence[Policy | None]) -> None:
        self.rows = list(policies)  # policy of each row
        self.started = False
        self.seen: dict[int, Tensor] = {}  # layer -> bool [rows, G, S], True for a key still in the cache
        self.mass: dict[int, Tensor] = {}  # layer -> float [rows, G, S], accumulated weight of each key
        self.votes: dict[int, Tensor] = {}  # layer -> [1, G, R, Q, S], weights of the prompt's last queries

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layer not in self.seen:
            self._begin(layer, q, k)
            return fused_attention(q, k, v)
        return self._step(layer, q, k, v)

    def follow(self, source: Sequence[int], policies: Sequence[Policy | None]) -> None:
        """Make row b of the next forward pass continue the old row `source[b]` under the policy `policies[b]`."""
        index = torch.tensor(source)
        for kept in (self.seen, self.mass):
            for layer, rows in kept.items():
                kept[layer] = rows[index]
        if not self.started:  # all rows start as copies of the prompt's row
            self.started = True
            for layer in self.seen:
                self._shrink(layer, policies)
        self.rows = list(policies)

    def _begin(self, layer: int, q: Tensor, k: Tensor) -> None:
        """Collect the attention weights of the prompt that the policies need: all of them for H2O, those of the last
        queries for SnapKV.
        """
        B, G, S, _ = k.shape
        self.seen[layer] = torch.ones(B, G, S, dtype=torch.bool)
        kinds = {policy.kind for policy in self.rows if policy}
        self.mass[layer] = torch.zeros(B, G, S)
        if "h2o" in kinds:
            for start in range(0, S, 128):  # a block of queries at a time, to bound memory
                self.mass[layer] += _weights(q[:, :, start : start + 128], k, start).sum((2, 3))
        if "snapkv" in kinds:
            start = max(0, S - _VOTERS)
            self.votes[layer] = _weights(q[:, :, start:], k, start)

    def _shrink(self, layer: int, policies: Sequence[Policy | None]) -> None:
        """Evict the prompt's keys in excess of each budget."""
        S = self.seen[layer].shape[-1]
        for row, policy in enumerate(policies):
            if policy is None or policy.budget > S:
                continue
            if policy.kind == "snapkv":
                self.seen[layer][row] = snap_keep(policy, self.votes[layer])[0]
                continue
            self.seen[layer][row] = _kept(policy, self.mass[layer][row])

    def _step(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        N, G, S, _ = k.shape
        grown = torch.ones(N, G, S, dtype=torch.bool)
        grown[..., : self.seen[layer].shape[-1]] = self.seen[layer]
        mass = torch.zeros(N, G, S)
        mass[..., : self.mass[layer].shape[-1]] = self.mass[layer]
        scores = attention_scores(q, k).view(N, G, -1, S)
        weights = attention_pattern(scores.masked_fill(~grown[:, :, None], -math.inf))
        mass += weights.sum(2)
        for row, policy in enumerate(self.rows):
            if policy is not None and policy.kind != "snapkv" and policy.budget <= S:
                _evict(policy, grown[row], mass[row])
        self.seen[layer], self.mass[layer] = grown, mass
        return mix(weights.view(N, -1, 1, S), v)


def _weights(q: Tensor, k: Tensor, start: int) -> Tensor:
    """Compute the attention weights over all keys of the queries from position `start`. -> [B, G, R, Q, S]"""
    (B, H, Q, _), (G, S) = q.shape, k.shape[1:3]
    return _causal(q, k, start).softmax(-1).view(B, G, H // G, Q, S)


def _causal(q: Tensor, k: Tensor, start: int) -> Tensor:
    """Compute causally masked scores of the queries from position `start`. -> [B, H, Q, S]"""
    Q, S = q.shape[2], k.shape[2]
    seen = attention_scores(q, k[:, :, : start + Q])  # no later key is visible
    scores = seen.new_full((*seen.shape[:3], S), -math.inf)
    scores[..., : start + Q] = seen
    return scores


def _kept(policy: Policy, mass: Tensor) -> Tensor:
    """Select the prompt's keys to keep, with room for the next token. mass [G, S] -> bool [G, S]"""
    S, room = mass.shape[-1], policy.budget - 1
    keep = torch.ones_like(mass, dtype=torch.bool)
    if policy.kind == "h2o":
        recent = max(0, policy.budget - policy.budget // 2 - 1)
        order = mass.clone()
        order[:, S - recent :] = math.inf
        keep[:] = False
        return keep.scatter_(-1, order.topk(room, -1).indices, True) if room else keep
    first = min(policy.first, room) if policy.kind == "first" else 0
    keep[:, first : S - (room - first)] = False
    return keep


def _evict(policy: Policy, kept: Tensor, mass: Tensor) -> None:
    """Evict one key from every full KV head. Changes `kept` [G, S] in place."""
    S, room = kept.shape[-1], policy.budget - 1
    full = kept.sum(-1) > room  # [G]
    if policy.kind == "h2o":
        recent = max(0, policy.budget - policy.budget // 2 - 1)
        order = mass.masked_fill(~kept, math.inf)
        order[:, S - recent :] = math.inf
        gone = order.argmin(-1)
    else:
        first = min(policy.first, room) if policy.kind == "first" else 0
        gone = kept[:, first:].int().argmax(-1) + first  # the oldest key that may be evicted
    kept[torch.arange(len(kept)), gone] &= ~full
