"""The module of each mixer by name. Every module maps [B, T, D] to [B, T, D], with `o` as its output projection."""

from torch import nn

from model.gpt.config import ModelConfig
from model.gpt.mixers.attention import Attention
from model.gpt.mixers.gated_delta import GatedDelta
from model.gpt.mixers.linear_attention import LinearAttention
from model.gpt.mixers.mamba import Mamba
from model.gpt.mixers.mamba2 import Mamba2
from model.gpt.mixers.short_conv import ShortConvolution


def build_mixer(config: ModelConfig, layer: int) -> nn.Module:
    """Return the mixer of one layer, with uninitialized weights."""
    name = config.mixer_of(layer)
    by_channel = {"mamba": Mamba, "mamba2": Mamba2, "gated_delta": GatedDelta, "short_conv": ShortConvolution}
    if name in by_channel:
        return by_channel[name](config)
    if config.is_attention(layer):
        return Attention(config, layer)
    return LinearAttention(config, layer)
