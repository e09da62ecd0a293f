"""The module of the gated short convolution, as in LFM2: a weighted sum of the last few tokens between two gates.

    x --- in_proj --+-- B --+
                    +-- u --x-- v --- conv ---> mixed --x---> z --- o ---> attn_out
                    +-- C ------------------------------+

Liquid AI 2025, "LFM2 Technical Report", section 2. The D channels have no heads; for views of heads, head h consists of
the channels h D / H to (h + 1) D / H - 1. "mixed" is the convolution without its bias: matrix @ v for each channel. The
weights do not depend on the text, so a channel's matrix is the same at every position.
"""

import math

import torch
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, split_heads
from model.gpt.linear import Linear
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.mamba import Convolution
from model.gpt.passes import Pass


class ShortConvolution(nn.Module):
    """D channels in H groups, each channel with the last K - 1 values as its state."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D = config.d_model
        self.n_head, self.width, self.factor = config.n_head, D // config.n_head, config.residual_multiplier
        self.in_proj = Linear(D, 3 * D, config.short_conv_bias)  # both gates and the values
        self.conv = Convolution(D, config.d_conv, config.short_conv_bias)
        self.o = Linear(D, D, config.short_conv_bias)
        self.joint: tuple[Linear, ...] = ()

    def parts(self) -> tuple[Linear, ...]:
        """Return no parts, since in_proj is already a single product."""
        return ()

    def initialize(self) -> None:
        """Set the convolution to uniform by its width, PyTorch's default."""
        bound = 1 / math.sqrt(self.conv.weight.shape[1])
        nn.init.uniform_(self.conv.weight, -bound, bound)

    def inputs(self, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor]:
        """Return the gated values v, and the gate of the output, [B, T, D] each. x [B, T, D]"""
        before, after, u = self.in_proj(x).chunk(3, -1)
        v = run.at("v", layer, split_heads(before * u, self.width))
        return merge_heads(v), after

    def mixing(self, x: Tensor, layer: int, run: Pass, channel: int) -> Tensor:
        """Return the matrix of one channel: mixed = matrix @ v. x [B, T, D] -> [B, T, T]"""
        return self._matrices(x.shape[1], slice(channel, channel + 1)).expand(len(x), -1, -1)

    def weights(self, v: Tensor, heads: range) -> Tensor:
        """Return the map of each head: the mean absolute matrix of its channels, with normalized rows.
        [B, heads, T, T]
        """
        spans = [slice(head * self.width, (head + 1) * self.width) for head in heads]
        maps = [self._matrices(v.shape[1], span).abs().mean(0) for span in spans]
        return row_weights(torch.stack(maps)).expand(len(v), -1, -1, -1)

    def _matrices(self, T: int, channels: slice) -> Tensor:
        """Return the matrices of some channels: the weight of a token is that of its distance. [n, T, T]"""
        kernel = self.conv.weight[channels].flip(-1)  # by distance, from 0
        distance = torch.arange(T)[:, None] - torch.arange(T)
        near = (distance >= 0) & (distance < kernel.shape[1])
        return kernel[:, distance.clamp(0, kernel.shape[1] - 1)] * near

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        v, gate = self.inputs(x, layer, run)
        held = None if run.cache is None else run.cache.state(layer)
        mixed, tail = self.conv(v, None if held is None else held[0])
        if run.cache is not None:
            run.cache.keep(layer, (tail,))
        if run.see is not None:
            run.see(layer, self.weights(v, range(self.n_head)))
        bias = self.conv.bias
        if run.tap is not None and bias is not None:
            mixed = merge_heads(run.at("mixed", layer, split_heads(mixed - bias, self.width))) + bias
        else:
            mixed = merge_heads(run.at("mixed", layer, split_heads(mixed, self.width)))
        z = run.at("z", layer, split_heads(gate * mixed, self.width))
        out = self.o(merge_heads(z))
        return run.at("attn_out", layer, out if self.factor == 1 else out * self.factor)
