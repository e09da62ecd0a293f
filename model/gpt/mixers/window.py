"""Attention through a window: a token sees the last W tokens, itself included, and nothing before them.

Beltagy et al. 2020, "Longformer", 3.1 (one-sided, as in Jiang et al. 2023, "Mistral 7B", 2.1). With W >= S the numbers
are those of full attention. Through L such layers a token can still hear of one L (W - 1) tokens back.
"""

import math

import torch
from torch import Tensor

from model.gpt.layers import attention_scores, mix

_ROWS = 128  # queries at once; they share few keys, so no [T, S] matrix is needed


def outside(T: int, S: int, window: int) -> Tensor:
    """Return a mask, True if key s lies `window` or more tokens before query t, the T queries being the last of S. [T,
    S] bool
    """
    return torch.ones(T, S, dtype=torch.bool).tril_(S - T - window)


def window_scores(q: Tensor, k: Tensor, window: int) -> Tensor:
    """Return the scores of full attention, -inf also where the key lies outside the window. -> [B, H, T, S]"""
    scores = attention_scores(q, k)
    return scores.masked_fill_(outside(*scores.shape[-2:], window), -math.inf)


def window_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Compute scores, pattern and mix, one block of queries at a time over the keys that it sees.

    q [B, H, T, E], k and v [B, G, S, E], the queries being the last T of S positions -> [B, H, T, E]
    """
    T, S = q.shape[2], k.shape[2]
    out = []
    for start in range(0, T, _ROWS):
        end = min(start + _ROWS, T)
        first, last = max(S - T + start - window + 1, 0), S - T + end
        scores = window_scores(q[:, :, start:end], k[:, :, first:last], window)
        out.append(mix(scores.softmax(-1), v[:, :, first:last]))
    return out[0] if len(out) == 1 else torch.cat(out, 2)
