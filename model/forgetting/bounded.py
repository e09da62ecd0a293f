"""Writing with a cache of bounded size: the prompt is read in full, then keys go until the budget holds.

From then on every new token costs a key of the past. The keys that went are masked, so that several texts with
different memories can be written in one batch; the numbers are those of a cache that really dropped them.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.forgetting.eviction import snap_keep
from model.forgetting.policies import Policy
from model.gpt.layers import attention_pattern, attention_scores, fused_attention, mix

_VOTERS = 16  # last queries of the prompt whose weights are looked at


class BoundedMemory:
    """An attention kernel for decoding that keeps each text's cache within its budget. None: nothing is forgotten.

    Give it as `attend` to every forward of one cache: first the prompt, [1, T], then one token for each row. Call
    `follow` with the rows that go on, before the forward that continues them.
    """

    def __init__(self, policies: Sequence[Policy | None]) -> None:
        self.rows = list(policies)  # of the texts that go on
        self.started = False
        self.seen: dict[int, Tensor] = {}  # layer -> bool [rows, G, S], whether a key is still there
        self.mass: dict[int, Tensor] = {}  # layer -> float [rows, G, S], weight that a key got so far
        self.votes: dict[int, Tensor] = {}  # layer -> [1, G, R, Q, S], weights of the prompt's last queries

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layer not in self.seen:
            self._begin(layer, q, k)
            return fused_attention(q, k, v)
        return self._step(layer, q, k, v)

    def follow(self, source: Sequence[int], policies: Sequence[Policy | None]) -> None:
        """Let row b of the next forward pass continue the old row source[b] with policies[b]."""
        index = torch.tensor(source)
        for kept in (self.seen, self.mass):
            for layer, rows in kept.items():
                kept[layer] = rows[index]
        if not self.started:  # all rows began as the one of the prompt
            self.started = True
            for layer in self.seen:
                self._shrink(layer, policies)
        self.rows = list(policies)

    def _begin(self, layer: int, q: Tensor, k: Tensor) -> None:
        """Collect the weights of the prompt that the policies need: all for H2O, those of the last queries
        for SnapKV.
        """
        B, G, S, _ = k.shape
        self.seen[layer] = torch.ones(B, G, S, dtype=torch.bool)
        kinds = {policy.kind for policy in self.rows if policy}
        self.mass[layer] = torch.zeros(B, G, S)
        if "h2o" in kinds:
            for start in range(0, S, 128):  # rows of weights, a few at a time
                self.mass[layer] += _weights(q[:, :, start : start + 128], k, start).sum((2, 3))
        if "snapkv" in kinds:
            start = max(0, S - _VOTERS)
            self.votes[layer] = _weights(q[:, :, start:], k, start)

    def _shrink(self, layer: int, policies: Sequence[Policy | None]) -> None:
        """Let go of the prompt's keys beyond each budget."""
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
                _let_go(policy, grown[row], mass[row])
        self.seen[layer], self.mass[layer] = grown, mass
        return mix(weights.view(N, -1, 1, S), v)


def _weights(q: Tensor, k: Tensor, start: int) -> Tensor:
    """Return the weights of the queries from `start` on over all keys. -> [B, G, R, Q, S]"""
    (B, H, Q, _), (G, S) = q.shape, k.shape[1:3]
    return _causal(q, k, start).softmax(-1).view(B, G, H // G, Q, S)


def _causal(q: Tensor, k: Tensor, start: int) -> Tensor:
    """Return the scores of some rows of the triangle."""
    Q, S = q.shape[2], k.shape[2]
    seen = attention_scores(q, k[:, :, : start + Q])  # as if the last of them ended the text
    scores = seen.new_full((*seen.shape[:3], S), -math.inf)
    scores[..., : start + Q] = seen
    return scores


def _kept(policy: Policy, mass: Tensor) -> Tensor:
    """Return which keys of the prompt are kept, so that the next token fits. mass [G, S] -> bool [G, S]"""
    S, room = mass.shape[-1], policy.budget - 1
    there = torch.ones_like(mass, dtype=torch.bool)
    if policy.kind == "h2o":
        recent = max(0, policy.budget - policy.budget // 2 - 1)
        order = mass.clone()
        order[:, S - recent :] = math.inf
        there[:] = False
        return there.scatter_(-1, order.topk(room, -1).indices, True) if room else there
    first = min(policy.first, room) if policy.kind == "first" else 0
    there[:, first : S - (room - first)] = False
    return there


def _let_go(policy: Policy, there: Tensor, mass: Tensor) -> None:
    """Evict one key in every KV head that is full. Changes `there` [G, S]."""
    S, room = there.shape[-1], policy.budget - 1
    full = there.sum(-1) > room  # [G]
    if policy.kind == "h2o":
        recent = max(0, policy.budget - policy.budget // 2 - 1)
        order = mass.masked_fill(~there, math.inf)
        order[:, S - recent :] = math.inf
        gone = order.argmin(-1)
    else:
        first = min(policy.first, room) if policy.kind == "first" else 0
        gone = there[:, first:].int().argmax(-1) + first  # the oldest one that may go
    there[torch.arange(len(there)), gone] &= ~full
