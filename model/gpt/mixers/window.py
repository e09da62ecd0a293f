"""Sliding-window attention: the last W tokens, including the query's own, are visible to a query.

Beltagy et al. 2020, "Longformer", 3.1 (one-sided, as in Jiang et al. 2023, "Mistral 7B", 2.1). With W >= S the results
are those of full attention. The receptive field of L such layers is L (W - 1) tokens before the query.
"""

import math

import torch
from torch import Tensor

from model.gpt.layers import attention_scores, mix

_ROWS = 128  # number of queries per block; few keys are visible to a block, so no [T, S] matrix is needed


def outside(T: int, S: int, window: int) -> Tensor:
    """Return a mask that is True if key s is `window` or more tokens before query t. [T, S] bool

    The T queries are the last of S positions.
    """
    return torch.ones(T, S, dtype=torch.bool).tril_(S - T - window)


def window_scores(q: Tensor, k: Tensor, window: int) -> Tensor:
    """Return the scores of full attention, with -inf also for keys outside the window. -> [B, H, T, S]"""
    scores = attention_scores(q, k)
    return scores.masked_fill_(outside(*scores.shape[-2:], window), -math.inf)


def window_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Compute attention within the window, one block of queries at a time with only the keys visible to it.

    q [B, H, T, E], k and v [B, G, S, E] -> [B, H, T, E]. The queries are the last T of S positions.
    """
    T, S = q.shape[2], k.shape[2]
    out = []
    for start in range(0, T, _ROWS):
        end = min(start + _ROWS, T)
        first, last = max(S - T + start - window + 1, 0), S - T + end
        scores = window_scores(q[:, :, start:end], k[:, :, first:last], window)
        out.append(mix(scores.softmax(-1), v[:, :, first:last]))
    return out[0] if len(out) == 1 else torch.cat(out, 2)
