"""LayerNorm or RMSNorm as a module, fused, or unfused for a tap."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import NORMS
from model.gpt.passes import Pass


class Norm(nn.Module):
    """LayerNorm or RMSNorm over the last axis, or over each of `groups` equal parts of it, with gain and bias if
    configured. Without a gain, `weight` is a buffer of ones that no checkpoint has.
    """

    def __init__(self, config: ModelConfig, width: int, groups: int = 1) -> None:
        super().__init__()
        self.kind, self.eps, self.groups = config.norm, config.norm_eps, groups
        if config.norm_weight:
            self.weight = nn.Parameter(torch.ones(width))
        else:  # on the CPU even where parameters have no memory yet, since no checkpoint fills it
            self.register_buffer("weight", torch.ones(width, device="cpu"), persistent=False)
        self.bias = nn.Parameter(torch.zeros(width)) if config.norm == "layernorm" and config.norm_bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.groups > 1:
            return self.by_group(x)
        if self.kind == "layernorm":
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def by_group(self, x: Tensor) -> Tensor:
        """Apply the norm to each group, with gains of its own. [..., n E] -> [..., n E]"""
        parts = x.unflatten(-1, (self.groups, -1))
        norm = F.layer_norm if self.kind == "layernorm" else F.rms_norm
        y = norm(parts, parts.shape[-1:], eps=self.eps).flatten(-2) * self.weight
        return y if self.bias is None else y + self.bias

    def tapped(self, x: Tensor, name: str, layer: int, run: Pass) -> Tensor:
        """Apply the norm. With a tap it is unfused, and the tap is called at `<name>_in`, `<name>_scale` and
        `<name>_out`.
        """
        if run.tap is None:
            return self(x)
        numerator, scale = NORMS[self.kind](run.tap(f"{name}_in", layer, x), self.eps)
        y = numerator / run.tap(f"{name}_scale", layer, scale) * self.weight
        return run.tap(f"{name}_out", layer, y if self.bias is None else y + self.bias)


def without_gain(config: ModelConfig) -> ModelConfig:
    """Return the config with norms without a gain."""
    return dataclasses.replace(config, norm_weight=False, expert_norms=False)


def rms(config: ModelConfig) -> ModelConfig:
    """Return the config with RMSNorm and the same eps, which is used for a head's output whatever the config's norm."""
    return dataclasses.replace(config, norm="rmsnorm")


def normed_qk(config: ModelConfig) -> ModelConfig:
    """Return the config with the norm of q and k in place of that of the stream."""
    kind = config.qk_norm_kind
    return dataclasses.replace(config, norm=kind.removesuffix("_bias"), norm_bias=kind.endswith("_bias"))


def qk_norm(config: ModelConfig, heads: int, over: str) -> Norm | None:
    """Build the norm of the q or k of `heads` heads, over each of them or all; None if the model has none."""
    if not config.qk_norm:
        return None
    width = config.d_head if over == "head" else config.d_head * heads
    return Norm(normed_qk(config), width, heads if over == "each" else 1)
