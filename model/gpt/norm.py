"""The norm of a block as a module: LayerNorm or RMSNorm, in one call or step by step for a tap."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import NORMS
from model.gpt.passes import Pass


class Norm(nn.Module):
    """LayerNorm or RMSNorm over the last axis, with gain and, where configured, bias."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.kind, self.eps = config.norm, config.norm_eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if config.norm == "layernorm" and config.norm_bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "layernorm":
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        if x.numel() == len(self.weight) and x.device.type == "cpu" and not torch.is_grad_enabled():
            return rmsnorm_row(x, self.weight, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def tapped(self, x: Tensor, name: str, layer: int, run: Pass) -> Tensor:
        """The same norm, step by step where there is a tap, which sees `<name>_in`, `<name>_scale` and `<name>_out`."""
        if run.tap is None:
            return self(x)
        numerator, scale = NORMS[self.kind](run.tap(f"{name}_in", layer, x), self.eps)
        y = numerator / run.tap(f"{name}_scale", layer, scale) * self.weight
        return run.tap(f"{name}_out", layer, y if self.bias is None else y + self.bias)


def rmsnorm_row(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """F.rms_norm of a single row: x / sqrt(x.x / D + eps) * weight, to rounding. x [..., D], all axes but the last 1.

    A step of generation has two a layer, and each is three calls instead of torch's seven.
    """
    row = x.reshape(-1)
    return (x * (1 / math.sqrt(float(row.dot(row)) / len(row) + eps))).mul_(weight)


def rms(config: ModelConfig) -> ModelConfig:
    """The config with RMSNorms: those over a head's q, k or output are, with the block's eps, whatever the block's."""
    return dataclasses.replace(config, norm="rmsnorm")
