"""LayerNorm or RMSNorm as a module, fused, or unfused for a tap."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import NORMS
from model.gpt.passes import Pass


class Norm(nn.Module):
    """LayerNorm or RMSNorm over the last axis, with gain and, if configured, bias."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        self.kind, self.eps = config.norm, config.norm_eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if config.norm == "layernorm" and config.norm_bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "layernorm":
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def tapped(self, x: Tensor, name: str, layer: int, run: Pass) -> Tensor:
        """Apply the norm. With a tap it is unfused, and the tap is called at `<name>_in`, `<name>_scale` and
        `<name>_out`.
        """
        if run.tap is None:
            return self(x)
        numerator, scale = NORMS[self.kind](run.tap(f"{name}_in", layer, x), self.eps)
        y = numerator / run.tap(f"{name}_scale", layer, scale) * self.weight
        return run.tap(f"{name}_out", layer, y if self.bias is None else y + self.bias)


def rms(config: ModelConfig) -> ModelConfig:
    """Return the config with RMSNorm and the same eps, which is used for a head's q, k or output whatever the config's
    norm.
    """
    return dataclasses.replace(config, norm="rmsnorm")
