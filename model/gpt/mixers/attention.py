"""Attention as a module: full or sliding-window softmax attention."""

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.layers import attention_pattern, merge_heads, mix
from model.gpt.linear import Linear
from model.gpt.mixers.projection import project
from model.gpt.mixers.window import window_attention, window_scores
from model.gpt.norm import Norm, rms
from model.gpt.passes import Pass


class Attention(nn.Module):
    """Causal self-attention with H query heads that share G KV heads, full or within a sliding `window`."""

    def __init__(self, config: ModelConfig, window: int | None = None) -> None:
        super().__init__()
        D, E = config.d_model, config.d_head
        self.d_head, self.window = E, window
        self.q = Linear(D, config.n_head * E, config.q_bias)
        self.k = Linear(D, config.n_kv_head * E, config.k_bias)
        self.v = Linear(D, config.n_kv_head * E, config.v_bias)
        self.o = Linear(config.n_head * E, D, config.o_bias)
        self.q_norm = Norm(rms(config), E) if config.qk_norm else None
        self.k_norm = Norm(rms(config), E) if config.qk_norm else None
        self.counts = (config.n_head, config.n_kv_head, config.n_kv_head)
        self.joint: tuple[Linear, ...] = ()  # q, k and v as one; a tuple, so that no parameter is registered twice

    def project(self, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor, Tensor]:
        """Return q [B, H, T, E], k and v [B, G, T, E], with QK norm and RoPE applied. x [B, T, D]"""
        return project(self, x, layer, run)

    def parts(self) -> tuple[Linear, ...]:
        """Return the parts of `joint`, in the same order."""
        return self.q, self.k, self.v

    def initialize(self) -> None:
        """Do nothing, since the default initialization of matrices and biases is sufficient."""

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        q, k, v = self.project(x, layer, run)
        if run.cache is not None:
            k, v = run.cache.put(layer, k, v) if self.window is None else self._recent(layer, k, v, run.cache)
        z = run.attend(layer, q, k, v) if self.window is None else self._through_window(layer, q, k, v, run)
        return run.at("attn_out", layer, self.o(merge_heads(run.at("z", layer, z))))

    def _recent(self, layer: int, k: Tensor, v: Tensor, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Return the stored keys and values followed by the new ones, and store the last W - 1. [B, G, S, E] each"""
        if held := cache.state(layer):
            k, v = torch.cat((held[0], k), 2), torch.cat((held[1], v), 2)
        first = 0 if cache.whole else max(k.shape[2] - self.window + 1, 0)
        cache.keep(layer, (k[:, :, first:].clone(), v[:, :, first:].clone()))
        return k, v

    def _through_window(self, layer: int, q: Tensor, k: Tensor, v: Tensor, run: Pass) -> Tensor:
        """Return the heads' outputs within the window. The full pattern is computed only for a tap or `see`."""
        if run.see is None and not run.explicit:
            return window_attention(q, k, v, self.window)
        if run.cache is not None and not run.cache.whole:
            raise ValueError("a tap finds keys by their place: give it a cache with whole=True")
        scores = window_scores(q, k, self.window)
        if run.explicit:
            pattern = run.at("pattern", layer, attention_pattern(run.at("scores", layer, scores)))
        else:
            pattern = attention_pattern(scores)
        if run.see is not None:
            run.see(layer, pattern)
        return mix(pattern, v)
