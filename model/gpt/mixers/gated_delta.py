"""The module of the gated delta rule as in Qwen3-Next: a short convolution, states that decay and overwrite, a gate.

    x ---+-- qkv --- conv, silu --- q, k: length 1 --- delta rule ---> mixed --- norm of each state's head --+
         +-- beta (how much is overwritten), forget (how fast the state decays) --+                          |
         +-- gate ------------------------------------------------------------- silu --------------- x ------+-- z --- o

Yang et al. 2024, "Gated Delta Networks", figure 1. There are n_delta_head heads with a state [d_delta_key,
d_delta_value] each; several of them share a query and a key. For views of heads, head h consists of the channels h I /
H to (h + 1) I / H - 1 of the I = n_delta_head x d_delta_value channels of the values. "v" are the values after the
convolution, and "mixed" is the output of the states for them: matrix @ v for each channel.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, split_heads
from model.gpt.linear import Linear
from model.gpt.mixers import delta
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.mamba import Convolution
from model.gpt.mixers.precision import exact, wide
from model.gpt.norm import Norm, rms
from model.gpt.passes import Pass

_EPS = 1e-6  # added to the squared length of a query or key, as in the published code


@dataclass(frozen=True, eq=False)
class Rates:
    """The arguments of the delta rule for n heads: what is stored where, and how fast it is overwritten and decays."""

    q: Tensor  # [B, n, T, E], already divided by sqrt(E)
    k: Tensor  # [B, n, T, E]
    v: Tensor  # [B, n, T, E']
    beta: Tensor  # [B, n, T], 0 to 1
    log_a: Tensor  # [B, n, T], at most 0


class GatedDelta(nn.Module):
    """n heads, each with a matrix as recurrent state, shown as the H heads of the config."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D, n, E, out = config.d_model, config.n_delta_head, config.d_delta_key, config.d_delta_value
        self.n_head, self.width = config.n_head, n * out // config.n_head
        self.n, self.d_key, self.d_value, self.repeats = n, E, out, n // config.n_delta_key
        self.widths = (config.n_delta_key * E, config.n_delta_key * E, n * out)
        self.factor = config.residual_multiplier
        self.qkv = Linear(D, sum(self.widths), bias=False)
        self.conv = Convolution(sum(self.widths), config.d_conv, bias=False)
        self.beta = Linear(D, n, bias=False)
        self.forget = Linear(D, n, bias=False)
        self.dt_bias = nn.Parameter(torch.empty(n))
        self.A_log = nn.Parameter(torch.empty(n))  # rates of decay: exp(A_log)
        self.gate = Linear(D, n * out, bias=False)
        self.out_norm = Norm(rms(config), out)
        self.o = Linear(n * out, D, bias=False)
        self.joint: tuple[Linear, ...] = ()

    def parts(self) -> tuple[Linear, ...]:
        """Return no parts, since qkv is already a single product."""
        return ()

    def initialize(self) -> None:
        """Set rates between 0.01 and 16, and the convolution to uniform by its width, as in the published code."""
        self.A_log.uniform_(0.01, 16).log_()
        self.dt_bias.fill_(1)
        bound = 1 / math.sqrt(self.conv.weight.shape[1])
        nn.init.uniform_(self.conv.weight, -bound, bound)

    def inputs(self, x: Tensor, layer: int, run: Pass, tail: Tensor | None = None) -> tuple[Rates, Tensor, Tensor]:
        """Return the rule's arguments, the gate [B, T, I], and the next tail of the convolution. x [B, T, D]"""
        qkv, tail = self.conv(self.qkv(x), tail)
        q, k, v = F.silu(qkv).split(self.widths, -1)
        v = split_heads(merge_heads(run.at("v", layer, split_heads(v, self.width))), self.d_value)
        q, k = (self._directions(part) for part in (q, k))
        log_a = -self.A_log.exp() * F.softplus(wide(self.forget(x)) + self.dt_bias)
        beta = wide(self.beta(x)).sigmoid()
        rates = Rates(q / math.sqrt(self.d_key), k, wide(v), beta.transpose(1, 2), log_a.transpose(1, 2))
        return rates, self.gate(x), tail

    def _directions(self, x: Tensor) -> Tensor:
        """Split into heads, normalize to length 1, and repeat for the heads that share them. -> [B, n, T, E]"""
        heads = wide(split_heads(x, self.d_key))
        heads = heads * (heads.square().sum(-1, keepdim=True) + _EPS).rsqrt()
        return heads.repeat_interleave(self.repeats, 1)

    def mixing(self, x: Tensor, layer: int, run: Pass, channel: int) -> Tensor:
        """Return the signed matrix of one channel: mixed = matrix @ v. x [B, T, D] -> [B, T, T]"""
        rates, head = self.inputs(x, layer, run)[0], channel // self.d_value
        return _matrix(rates, slice(head, head + 1))[:, 0]

    def weights(self, rates: Rates, heads: range) -> Tensor:
        """Return the map of each head: the mean absolute matrix of its channels, with normalized rows.
        [B, heads, T, T]
        """
        maps, each = [], self.n // self.n_head
        for head in heads:
            matrix = _matrix(rates, slice(head * each, (head + 1) * each))
            maps.append(row_weights(matrix.abs().mean(1)))
        return torch.stack(maps, 1)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        tail, state = (None, None) if run.cache is None else run.cache.state(layer) or (None, None)
        rates, gate, tail = self.inputs(x, layer, run, tail)
        if state is None:
            state = rates.v.new_zeros(len(x), self.n, self.d_key, self.d_value)
        with exact(x):  # sums over a text require float32
            mixed, state = delta.chunked(rates.q, rates.k, rates.v, rates.beta, state, rates.log_a)
        if run.cache is not None:
            run.cache.keep(layer, (tail, state))
        if run.see is not None:
            run.see(layer, self.weights(rates, range(self.n_head)))
        mixed = merge_heads(run.at("mixed", layer, split_heads(merge_heads(mixed), self.width)))
        z = self.out_norm(split_heads(mixed, self.d_value).to(x.dtype)) * F.silu(split_heads(gate, self.d_value))
        z = run.at("z", layer, split_heads(merge_heads(z), self.width))
        out = self.o(merge_heads(z))
        return run.at("attn_out", layer, out if self.factor == 1 else out * self.factor)


def _matrix(rates: Rates, heads: slice) -> Tensor:
    """Return the matrices of some heads with a state. [B, heads, T, T]"""
    return delta.matrix(*(part[:, heads] for part in (rates.q, rates.k, rates.beta, rates.log_a)))
