"""The module of the mixers that keep one matrix per head: linear attention, retention and the delta rule.

    q, k, v ---- mixing ----> mixed --- norm of each head --- x silu(g) ---> z --- o ---> attn_out
                   |
            state [E, E] per head

Without a softmax, the norm of a head's output is unbounded, so each output is normalized before the projection (by an
RMSNorm with one gain for all heads; Sun et al. 2023, 3.1, use a GroupNorm). Retention and linear attention have an
output gate g (Sun et al. 2023, eq. 8; Yang et al. 2024, 4.4). The delta rule has none (Yang et al. 2024, "Parallelizing
...", 3.3, whose short convolutions are omitted here).
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, split_heads
from model.gpt.linear import Linear
from model.gpt.mixers import decay, delta
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.precision import exact, wide
from model.gpt.mixers.projection import Turn, project
from model.gpt.norm import Norm, qk_norm, rms
from model.gpt.passes import Pass


class LinearAttention(nn.Module):
    """H heads, each with a d_head x d_head matrix as recurrent state."""

    source = v_eps = None  # keys and values are its own, and values have no norm

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        kind = config.mixer_of(layer)
        D, H, E = config.d_model, config.n_head, config.d_head
        self.kind, self.n_head, self.d_head = kind, H, E
        self.turn, self.factor = Turn.of(config, layer), config.residual_multiplier
        self.q = Linear(D, H * E, config.q_bias)
        self.k = Linear(D, config.n_kv_head * E, config.k_bias)
        self.v = Linear(D, config.n_kv_head * E, config.v_bias)
        self.o = Linear(H * E, D, config.o_bias)
        self.q_norm = qk_norm(config, config.n_head, "head")
        self.k_norm = qk_norm(config, config.n_head, "head")
        self.forget = Linear(D, H, bias=True) if kind == "linear" else None
        self.beta = Linear(D, H, bias=False) if kind == "delta" else None
        self.gate = Linear(D, H * E, bias=False) if kind != "delta" else None
        self.out_norm = Norm(rms(config), E)
        self.counts = (H, config.n_kv_head, config.n_kv_head)
        self.joint: tuple[Linear, ...] = ()  # q, k and v as one; a tuple, so that no parameter is registered twice

    def parts(self) -> tuple[Linear, ...]:
        """Return the parts of `joint`, in the same order."""
        return self.q, self.k, self.v

    def initialize(self) -> None:
        """Do nothing, since the default initialization of matrices and biases is sufficient."""

    def inputs(self, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q, k, v [B, H, T, E] as in the formulas, and the log decay (or beta) of each head [B or 1, H, T]."""
        q, k, v = project(self, x, layer, run)
        q, k, v = (wide(part) for part in (q, k, v))
        k, v = (part.repeat_interleave(self.n_head // part.shape[1], 1) for part in (k, v))
        if self.kind == "delta":
            return delta.directions(q), delta.directions(k), v, wide(self.beta(x)).sigmoid().transpose(1, 2)
        if self.kind == "retention":
            log_a = decay.retention_log_decay(self.n_head).to(q)[None, :, None].expand(1, -1, q.shape[2])
        else:
            log_a = decay.gate_log_decay(wide(self.forget(x)).transpose(1, 2))
        return q / math.sqrt(self.d_head), k, v, log_a

    def mixing(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Return the signed matrix equivalent to the recurrence: mixed = matrix @ v. x [B, T, D] -> [B, H, T, T]"""
        q, k, _, rates = self.inputs(x, layer, run)
        return (delta if self.kind == "delta" else decay).matrix(q, k, rates)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        inputs = self.inputs(x, layer, run)
        with exact(x):  # sums over a text require float32
            mixed = self._mix(*inputs, layer, run)
        z = self.out_norm(run.at("mixed", layer, mixed).to(x.dtype))
        if self.gate is not None:
            z = z * F.silu(split_heads(self.gate(x), self.d_head))
        out = self.o(merge_heads(run.at("z", layer, z)))
        return run.at("attn_out", layer, out if self.factor == 1 else out * self.factor)

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor, layer: int, run: Pass) -> Tensor:
        """Return the heads' outputs before the norm, and update the cached state if there is a cache. [B, H, T, E]"""
        rule = delta if self.kind == "delta" else decay
        held = None if run.cache is None else run.cache.state(layer)
        state = q.new_zeros(*q.shape[:2], self.d_head, self.d_head) if held is None else held[0]
        mixed, state = rule.chunked(q, k, v, rates, state)
        if run.cache is not None:
            run.cache.keep(layer, (state,))
        if run.see is not None:
            run.see(layer, row_weights(rule.matrix(q, k, rates)))
        return mixed
