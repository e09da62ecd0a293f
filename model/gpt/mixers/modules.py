"""The module of each mixer by name. Every module maps [B, T, D] to [B, T, D], with `o` as its output projection."""

from torch import nn

from model.gpt.config import ModelConfig
from model.gpt.mixers.attention import Attention
from model.gpt.mixers.linear_attention import LinearAttention
from model.gpt.mixers.mamba import Mamba


def build_mixer(config: ModelConfig, layer: int) -> nn.Module:
    """Return the mixer of one layer, with uninitialized weights."""
    name = config.mixer_of(layer)
    if name == "mamba":
        return Mamba(config)
    if config.is_attention(layer):
        return Attention(config, config.window if name == "sliding_window" else None)
    return LinearAttention(config, name)
