"""The rules by which a layer of softmax attention turns q.k into weights, where that is more than a softmax.

    s = q.k / sqrt(d_head) --> cap --> ALiBi --> hidden keys: -inf --> softmax, with the sink --> weights

A sliding window hides keys that are `window` or more tokens before the query (Beltagy et al. 2020, "Longformer", 3.1;
one-sided, as in Jiang et al. 2023, "Mistral 7B", 2.1); if tokens also attend to later ones, half of the window lies on
each side. ALiBi subtracts from a score the distance times the head's slope (Press et al. 2022, section 3). Falcon RW
was trained with slope times position in bfloat16, added to q.k before the division by sqrt(d_head). A cap limits
scores smoothly (Gemma 2 report 2024, section 2). A sink is a learned score per head that takes part in the softmax
without a key, so a row's weights sum to less than 1 (Agarwal et al. 2025, gpt-oss; Miller 2023, "Attention is off by
one").
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.gpt.layers import attention_pattern, attention_scores, capped, mix

_ROWS = 128  # number of queries per block; few keys are visible through a window, so no [T, S] matrix is needed


@dataclass(frozen=True, eq=False)
class Scoring:
    """The rules of one layer, for H query heads; all None: a softmax of q.k / sqrt(d_head)."""

    window: int | None = None  # number of tokens visible to a token, itself included
    cap: float | None = None
    slopes: Tensor | None = None  # [H], ALiBi
    root: float | None = None  # sqrt(d_head), if ALiBi is rounded to bfloat16 and divided by it
    sinks: Tensor | None = None  # [H]
    two_way: bool = False  # whether later keys are visible, too

    @property
    def plain(self) -> bool:
        """True if no rule applies."""
        rules = (self.window, self.cap, self.slopes, self.sinks)
        return not self.two_way and all(rule is None for rule in rules)

    def of(self, head: int) -> "Scoring":
        """Return the rules of one head."""
        one = slice(head, head + 1)
        slopes, sinks = (None if each is None else each[one] for each in (self.slopes, self.sinks))
        return replace(self, slopes=slopes, sinks=sinks)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Compute the scores; -inf where a key is hidden. q [B, H, T, E], k [B, G, S, E] -> [B, H, T, S]

        The queries are the last T of S positions.
        """
        scores = attention_scores(q, k, two_way=self.two_way)
        if self.window is None and self.cap is None and self.slopes is None:
            return scores
        T, S = scores.shape[-2:]
        return self.changed(scores, torch.arange(S - T, S), torch.arange(S))

    def changed(self, scores: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Apply cap, ALiBi and window to scores of queries and keys at these positions; hidden keys remain at -inf.
        [..., H, T, S]; [T]; [S]
        """
        if self.cap is not None:
            scores = capped(scores, self.cap).masked_fill(scores.isneginf(), -math.inf)
        distance = query[:, None] - key  # [T, S]
        if self.slopes is not None:
            scores = scores - self.penalty(query, key)
        if self.window is None:
            return scores
        hidden = 2 * distance.abs() > self.window if self.two_way else distance >= self.window
        return scores.masked_fill(hidden, -math.inf)

    def penalty(self, query: Tensor, key: Tensor) -> Tensor:
        """Return what ALiBi subtracts for queries and keys at these positions. [T]; [S] -> [H, T, S]"""
        if self.root is None:
            return self.slopes[:, None, None] * (query[:, None] - key).abs()
        slope = self.slopes[:, None].bfloat16()
        return ((slope * query).float()[:, :, None] - (slope * key).float()[:, None]) / self.root

    def past(self, query: Tensor, key: Tensor) -> Tensor:
        """Return a mask that is True where a key at its position is hidden from a query because it comes later. [T, S]
        bool
        """
        return (key > query[:, None]) & (not self.two_way)

    def pattern(self, scores: Tensor) -> Tensor:
        """Compute the weights; rows sum to 1, or less with a sink. [..., H, T, S] -> [..., H, T, S]"""
        if self.sinks is None:
            return attention_pattern(scores)
        sink = self.sinks[:, None, None].to(scores).expand(*scores.shape[:-1], 1)
        return attention_pattern(torch.cat((scores, sink), -1))[..., :-1]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the heads' outputs, unless `two_way` one block of queries at a time with only the keys visible to it.

        q [B, H, T, E], k and v [B, G, S, E] -> [B, H, T, E]. The queries are the last T of S positions.
        """
        if self.two_way:
            return mix(self.pattern(self.scores(q, k)), v)
        T, S = q.shape[2], k.shape[2]
        out = []
        for start in range(0, T, _ROWS):
            end = min(start + _ROWS, T)
            first = 0 if self.window is None else max(S - T + start - self.window + 1, 0)
            last = S - T + end
            pattern = self.pattern(self.scores(q[:, :, start:end], k[:, :, first:last]))
            out.append(mix(pattern, v[:, :, first:last]))
        return out[0] if len(out) == 1 else torch.cat(out, 2)


def hidden_by_window(T: int, S: int, window: int) -> Tensor:
    """Return a mask that is True if key s is `window` or more tokens before query t. [T, S] bool

    The T queries are the last of S positions.
    """
    return torch.ones(T, S, dtype=torch.bool).tril_(S - T - window)


def alibi_slopes(n_head: int) -> Tensor:
    """Return the slope of each head: 2^(-8 i / n) for i = 1 .. n, if n is a power of 2. [H]

    Otherwise the slopes of the next smaller power of 2, followed by every second one of the next larger power. Press
    et al. 2022, section 3, and their code.
    """
    n = 1 << (n_head.bit_length() - 1)
    slopes = [2 ** (-8 * i / n) for i in range(1, n + 1)]
    slopes += [2 ** (-8 * i / (2 * n)) for i in range(1, 2 * n + 1, 2)][: n_head - n]
    return torch.tensor(slopes)


def scoring_of(config: ModelConfig, layer: int, sinks: Tensor | None) -> Scoring:
    """Return the rules of one layer; `sinks` are its learned scores. [H]"""
    slopes = alibi_slopes(config.n_head) if config.positions == "alibi" else None
    window = config.window if config.mixer_of(layer) == "sliding_window" else None
    root = math.sqrt(config.d_head) if config.alibi_rounded else None
    return Scoring(window, config.score_cap, slopes, root, sinks, config.two_way)
