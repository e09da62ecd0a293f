"""The module of the Mamba mixer: a convolution over the last few tokens, the selective state space, and a gate.

    x --- in_proj --+-- u --- conv, silu --- scan --- + D u --- x silu(gate) ---> z --- o ---> attn_out
                    +-- gate              |
                                   state [I, N]

Gu & Dao 2023, "Mamba", figure 3 and 3.4. Mamba has I = expand x d_model channels and no heads; for views of heads, head
h consists of the channels h I / H to (h + 1) I / H - 1. "v" are the channels after the convolution, and "mixed" is the
output of the state for them, which is matrix @ v for each channel. D u, a path that bypasses the state, is not part of
the matrix.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, split_heads
from model.gpt.linear import Linear
from model.gpt.mixers import selective
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.precision import exact, wide
from model.gpt.mixers.selective import StateSelection
from model.gpt.passes import Pass

SHORTEST, LONGEST = 1e-3, 1e-1  # minimum and maximum step size at initialization


class Convolution(nn.Module):
    """A causal convolution per channel: a weighted sum of the last K values, with or without a bias."""

    def __init__(self, channels: int, width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, width))  # [I, K], the last column for the token itself
        self.bias = nn.Parameter(torch.empty(channels)) if bias else None

    def forward(self, u: Tensor, tail: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weighted sums for u [B, T, I], given the K - 1 preceding values `tail` [B, K - 1, I] or, at the
        start of a text, None for zeros; and the next tail.
        """
        if tail is None:
            tail = u.new_zeros(len(u), self.weight.shape[1] - 1, u.shape[-1])
        T, padded = u.shape[1], torch.cat((tail, u), 1)
        out = sum(self.weight[:, n] * padded[:, n : n + T] for n in range(self.weight.shape[1]))
        return out if self.bias is None else self.bias + out, padded[:, T:]


class Mamba(nn.Module):
    """I channels in H groups, each channel with N numbers as recurrent state."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D, channels, N = config.d_model, config.d_inner, config.d_state
        self.n_head, self.width, self.rank = config.n_head, channels // config.n_head, config.dt_rank
        self.factor = config.residual_multiplier
        self.in_proj = Linear(D, 2 * channels, bias=False)  # u and the gate
        self.conv = Convolution(channels, config.d_conv)
        self.x_proj = Linear(channels, self.rank + 2 * N, bias=False)  # low-rank step size, B and C
        self.dt_proj = Linear(self.rank, channels, bias=True)
        self.A_log = nn.Parameter(torch.empty(channels, N))  # A = -exp(A_log)
        self.D = nn.Parameter(torch.empty(channels))
        self.o = Linear(channels, D, bias=False)
        self.joint: tuple[Linear, ...] = ()

    def parts(self) -> tuple[Linear, ...]:
        """Return no parts, since in_proj is already a single product."""
        return ()

    def initialize(self) -> None:
        """Set rates to 1 .. N, step sizes between SHORTEST and LONGEST, and inputs to uniform by fan-in. Gu & Dao 2023,
        3.6.
        """
        channels, N = self.A_log.shape
        self.A_log.copy_(torch.arange(1, N + 1, dtype=torch.float32).log().expand(channels, N))
        self.D.fill_(1)
        for module in (self.in_proj, self.x_proj, self.dt_proj, self.conv):
            bound = 1 / math.sqrt(module.weight.shape[1])
            nn.init.uniform_(module.weight, -bound, bound)
        size = torch.exp(torch.rand(channels) * math.log(LONGEST / SHORTEST) + math.log(SHORTEST))
        self.dt_proj.bias.copy_(size + torch.log(-torch.expm1(-size)))  # softplus of the bias is `size`

    def select(self, u: Tensor) -> StateSelection:
        """Return the selection parameters of each token, from the channels after the convolution. u [B, T, I]"""
        low, B, C = self.x_proj(u).split((self.rank, *[self.A_log.shape[1]] * 2), -1)
        delta = F.softplus(F.linear(wide(low), self.dt_proj.weight, self.dt_proj.bias))
        return StateSelection(wide(u), delta, -self.A_log.exp(), wide(B), wide(C))

    def inputs(
        self, x: Tensor, layer: int, run: Pass, tail: Tensor | None = None
    ) -> tuple[StateSelection, Tensor, Tensor]:
        """Return the selection, the gate [B, T, I], and the next tail of the convolution. x [B, T, D]"""
        u, gate = self.in_proj(x).chunk(2, -1)
        u, tail = self.conv(u, tail)
        chosen = self.select(F.silu(u))
        u = merge_heads(run.at("v", layer, split_heads(chosen.u, self.width)))
        return StateSelection(u, chosen.delta, chosen.A, chosen.B, chosen.C), gate, tail

    def mixing(self, x: Tensor, layer: int, run: Pass, channel: int) -> Tensor:
        """Return the signed matrix of one channel: mixed = matrix @ v. x [B, T, D] -> [B, T, T]"""
        chosen, _, _ = self.inputs(x, layer, run)
        return selective.matrix(chosen, slice(channel, channel + 1))[:, 0]

    def weights(self, chosen: StateSelection, heads: range) -> Tensor:
        """Return the map of each head: the mean absolute matrix of its channels, with normalized rows.
        [B, heads, T, T]
        """
        spans = [slice(head * self.width, (head + 1) * self.width) for head in heads]
        return torch.stack([row_weights(selective.sizes(chosen, span)) for span in spans], 1)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        tail, state = (None, None) if run.cache is None else run.cache.state(layer) or (None, None)
        chosen, gate, tail = self.inputs(x, layer, run, tail)
        if state is None:
            state = chosen.u.new_zeros(len(x), *self.A_log.shape)
        with exact(x):  # sums over a text require float32
            mixed, state = selective.scan(chosen, state)
        if run.cache is not None:
            run.cache.keep(layer, (tail, state))
        if run.see is not None:
            run.see(layer, self.weights(chosen, range(self.n_head)))
        mixed = merge_heads(run.at("mixed", layer, split_heads(mixed, self.width)))
        z = (mixed + self.D * chosen.u).to(x.dtype) * F.silu(gate)
        z = run.at("z", layer, split_heads(z, self.width))
        out = self.o(merge_heads(z))
        return run.at("attn_out", layer, out if self.factor == 1 else out * self.factor)
