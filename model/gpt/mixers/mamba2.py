"""The module of the Mamba 2 mixer: a convolution over the last few tokens, a linear recurrence with one decay per head,
and a gate.

              +-- gate --------------------------------------------+
    x --- in_proj --- x, B, C --- conv, silu --- mixing --- + D x --- norm(x silu(gate)) ---> z --- o ---> attn_out
              +-- step size d -------------------- |
                                          state [N, P] per head

    S_t = a_t S_(t-1) + B_t (d_t x_t)^T,   y_t = S_t^T C_t + D x_t,   a_t = exp(d_t A),   d_t = softplus(. + bias)

Dao & Gu 2024, "Transformers are SSMs", 6 and 7.1: this is linear attention with decay (model.gpt.mixers.decay) with
queries C, keys B and values d x. J heads of P channels have one rate A and one step size each; the heads of a group
share B and C. For views of heads, head h consists of the I / H channels from h I / H on, as in Mamba. "v" are the
channels x after the convolution, and "mixed" is matrix @ v; D x bypasses the state and is not part of the matrix.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, split_heads
from model.gpt.linear import Linear
from model.gpt.mixers import decay
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.mamba import LONGEST, SHORTEST, Convolution
from model.gpt.mixers.precision import exact, wide
from model.gpt.mixers.selective import StateSelection
from model.gpt.passes import Pass


class GatedNorm(nn.Module):
    """RMSNorm over each group of channels, after the gate or before it, with one gain per channel."""

    def __init__(self, channels: int, groups: int, eps: float, gate_first: bool) -> None:
        super().__init__()
        self.groups, self.eps, self.gate_first = groups, eps, gate_first
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, y: Tensor, gate: Tensor) -> Tensor:
        """Apply norm and gate. y and gate [B, T, I] -> [B, T, I]"""
        y = wide(y) * F.silu(wide(gate)) if self.gate_first else wide(y)
        grouped = y.unflatten(-1, (self.groups, -1))
        y = F.rms_norm(grouped, grouped.shape[-1:], eps=self.eps).flatten(-2) * self.weight
        return y if self.gate_first else y * F.silu(wide(gate))


class Mamba2(nn.Module):
    """J state heads with P channels each, and a state of N x P numbers per head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_head = 1 if config.ssm_beside else config.n_head  # beside attention, no view has heads of it
        self.heads, self.groups = config.ssm_heads, config.ssm_groups
        self.d_head, self.d_state, self.channels = config.d_ssm_head, config.d_state, config.d_ssm
        self.limits, self.factor = (config.dt_min, config.dt_max), config.residual_multiplier
        mixed = self.channels + 2 * self.groups * self.d_state  # x, B and C
        self.in_proj = Linear(config.d_model, self.channels + mixed + self.heads, config.ssm_bias)
        self.conv = Convolution(mixed, config.d_conv, config.ssm_conv_bias)
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads))  # A = -exp(A_log)
        self.D = nn.Parameter(torch.empty(self.heads))
        kind = config.ssm_norm
        self.norm = (
            None if kind == "none" else GatedNorm(self.channels, self.groups, config.norm_eps, kind == "after_gate")
        )
        self.o = Linear(self.channels, config.d_model, config.ssm_bias)
        self.joint: tuple[Linear, ...] = ()

    def parts(self) -> tuple[Linear, ...]:
        """Return no parts, since in_proj is already a single product."""
        return ()

    def initialize(self) -> None:
        """Set rates to 1 .. J, step sizes between SHORTEST and LONGEST, and inputs to uniform by fan-in, as the
        published code does.
        """
        self.A_log.copy_(torch.arange(1, self.heads + 1, dtype=torch.float32).log())
        self.D.fill_(1)
        for module in (self.in_proj, self.conv):
            bound = 1 / math.sqrt(module.weight.shape[1])
            nn.init.uniform_(module.weight, -bound, bound)
        size = torch.exp(torch.rand(self.heads) * math.log(LONGEST / SHORTEST) + math.log(SHORTEST))
        self.dt_bias.copy_(size + torch.log(-torch.expm1(-size)))  # softplus of the bias is `size`

    def inputs(
        self, x: Tensor, layer: int, run: Pass, tail: Tensor | None = None
    ) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor, Tensor, Tensor]:
        """Return C, B [B, J, T, N], the channels [B, J, T, P] and the step sizes [B, J, T]; the log decays [B, J, T];
        the gate [B, T, I]; and the next tail of the convolution. x [B, T, D]
        """
        N, mixed = self.groups * self.d_state, self.channels + 2 * self.groups * self.d_state
        gate, u, low = self.in_proj(x).split((self.channels, mixed, self.heads), -1)
        u, tail = self.conv(u, tail)
        values, B, C = F.silu(u).split((self.channels, N, N), -1)
        values = merge_heads(run.at("v", layer, split_heads(values, self.channels // self.n_head)))
        shared = (split_heads(wide(part), self.d_state) for part in (C, B))
        C, B = (part.repeat_interleave(self.heads // self.groups, 1) for part in shared)
        delta = F.softplus(wide(low) + self.dt_bias).clamp(*self.limits).transpose(1, 2)
        log_a = -self.A_log.exp()[:, None] * delta
        return (C, B, wide(split_heads(values, self.d_head)), delta), log_a, gate, tail

    def selection(self, x: Tensor, layer: int, run: Pass) -> StateSelection:
        """Return what the tokens select, by channel as in Mamba; B and C [B, T, G N] are those of all groups, side by
        side. x [B, T, D]
        """
        (C, B, values, delta), _, _, _ = self.inputs(x, layer, run)
        each, P = self.heads // self.groups, self.d_head
        B, C = (merge_heads(part[:, ::each]) for part in (B, C))
        A = -self.A_log.exp().repeat_interleave(P)[:, None].expand(-1, self.d_state)
        return StateSelection(merge_heads(values), delta.transpose(1, 2).repeat_interleave(P, -1), A, B, C)

    def mixing(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Return the signed matrix of each state head: mixed = matrix @ v. x [B, T, D] -> [B, J, T, T]"""
        (C, B, _, delta), log_a, _, _ = self.inputs(x, layer, run)
        return decay.matrix(C, B * delta[..., None], log_a)

    def weights(self, matrix: Tensor) -> Tensor:
        """Return the map of each head: the mean absolute matrix of its channels, with normalized rows.
        [B, J, T, T] -> [B, H, T, T]
        """
        of = torch.arange(self.channels, device=matrix.device) // self.d_head  # the state head of each channel
        shares = F.one_hot(of.view(self.n_head, -1), self.heads).sum(1).to(matrix) * self.n_head / self.channels
        return row_weights(torch.einsum("hj,bjts->bhts", shares, matrix.abs()))

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        tail, state = (None, None) if run.cache is None else run.cache.state(layer) or (None, None)
        (C, B, values, delta), log_a, gate, tail = self.inputs(x, layer, run, tail)
        if state is None:
            state = values.new_zeros(len(x), self.heads, self.d_state, self.d_head)
        with exact(x):  # sums over a text require float32
            mixed, state = decay.chunked(C, B, delta[..., None] * values, log_a, state)
        if run.cache is not None:
            run.cache.keep(layer, (tail, state))
        if run.see is not None:
            run.see(layer, self.weights(decay.matrix(C, B * delta[..., None], log_a)))
        by_head = split_heads(merge_heads(mixed), self.channels // self.n_head)
        mixed = split_heads(merge_heads(run.at("mixed", layer, by_head)), self.d_head)
        y = merge_heads(mixed + self.D[:, None, None] * values)
        y = y * F.silu(wide(gate)) if self.norm is None else self.norm(y, gate)
        z = run.at("z", layer, split_heads(y.to(x.dtype), self.channels // self.n_head))
        out = self.o(merge_heads(z))
        return run.at("attn_out", layer, out if self.factor == 1 else out * self.factor)
