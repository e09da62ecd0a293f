"""The forward pass of training: attention in chunks of queries, and dropout."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.gpt.layers import attention_pattern, fused_attention
from model.gpt.passes import Attend
from model.gpt.tap import Tap


def attend_rows(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention, 128 queries at a time over their visible keys. q [B, H, T, E], k and v [B, G, T, E].

    On a CPU, its backward pass takes half the time of the fused kernel, which is used everywhere else.
    """
    return fused_attention(q, k, v) if q.device.type != "cpu" else _rows(q, k, v, None)


def _rows(q: Tensor, k: Tensor, v: Tensor, drop: "Drop | None") -> Tensor:
    """Compute the attention of `attend_rows`, with dropout of the attention weights if `drop` is given."""
    B, H, T, E = q.shape
    k, v = (x.repeat_interleave(H // x.shape[1], 1) if x.shape[1] < H else x for x in (k, v))
    q, k, v = (q / math.sqrt(E)).reshape(B * H, T, E), k.reshape(B * H, T, E), v.reshape(B * H, T, E)
    out = []
    for start in range(0, T, 128):
        end = min(start + 128, T)
        future = torch.zeros(end - start, end, dtype=q.dtype, device=q.device).masked_fill_(
            _future(start, end, q.device), -math.inf
        )  # [t, S]
        scores = torch.baddbmm(future.expand(B * H, -1, -1), q[:, start:end], k[:, :end].transpose(1, 2))
        pattern = attention_pattern(scores).to(v.dtype)
        out.append((pattern if drop is None else drop(pattern)) @ v[:, :end])
    return torch.cat(out, 1).view(B, H, T, E)


def _future(start: int, end: int, device: torch.device) -> Tensor:
    """Build a mask of the keys 0 .. end - 1 that lie after each of the queries start .. end - 1. [t, S] bool"""
    return torch.arange(end, device=device) > torch.arange(start, end, device=device)[:, None]


# --- dropout ---------------------------------------------------------------------------------------

DROPPED = ("attn_out", "mlp_out")  # sites with dropout, besides the sum of the embeddings and the attention weights


@dataclass(frozen=True)
class Drop:
    """Dropout: zeroes each number with probability `rate` and divides the others by 1 - rate, which preserves the
    mean.

    Srivastava et al. 2014, "Dropout", section 10. All random numbers come from the generator.
    """

    rate: float
    draws: torch.Generator

    def __call__(self, x: Tensor) -> Tensor:
        """Apply dropout. The result has the shape of x."""
        kept = torch.empty_like(x).bernoulli_(1 - self.rate, generator=self.draws)
        return x * kept / (1 - self.rate)


@dataclass(frozen=True)
class TrainingInputs:
    """The arguments of a training forward pass besides the tokens."""

    attend: Attend = attend_rows
    tap: Tap | None = None


PLAIN = TrainingInputs()  # without dropout


def with_dropout(rate: float, seed: int, step: int, device: torch.device) -> TrainingInputs:
    """Set up the dropout of a step, at the places of Vaswani et al. 2017 (5.4) and nanoGPT; PLAIN if the rate is 0.

    Dropout applies to the sum of the embeddings, the attention weights, and what attention and MLP add to the stream.
    It is a tap of training passes only: the model itself has no dropout, so none is applied when it is evaluated,
    traced, saved or used for generation. A mixer without softmax has no attention weights to drop, and those of
    a layer with a window or other rules for its scores are kept.
    """
    if not rate:
        return PLAIN
    draws = torch.Generator(device).manual_seed(int(np.random.default_rng([seed, step, 1]).integers(1 << 62)))
    drop = Drop(rate, draws)

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        first = site == "resid_pre" and layer == 0
        return drop(x) if first or site in DROPPED else x

    return TrainingInputs(lambda layer, q, k, v: _rows(q, k, v, drop), tap)
