"""Attention as a module: softmax attention by the rules of its layer (model.gpt.mixers.scoring)."""

import dataclasses

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, mix
from model.gpt.linear import Linear
from model.gpt.mixers.mamba2 import Mamba2
from model.gpt.mixers.projection import Turn, project
from model.gpt.mixers.scoring import Scoring, scoring_of
from model.gpt.norm import qk_norm
from model.gpt.passes import Pass


class Attention(nn.Module):
    """Causal self-attention with H query heads that share G KV heads, which may be those of an earlier layer."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        own = config.at(layer)
        D, E, G = config.d_model, own.d_head, own.n_kv_head
        source = config.kv_source(layer)
        self.source = None if source == layer else source  # the layer whose keys and values it uses
        self.stores = any(config.kv_source(later) == layer for later in range(layer + 1, config.n_layer))
        self.v_eps = config.norm_eps if config.v_norm else None
        self.d_head, self.factor = E, config.residual_multiplier
        self.turn = Turn.of(config, layer)
        self.sinks = nn.Parameter(torch.zeros(config.n_head)) if config.sinks else None
        self._config, self._layer = config, layer
        self.q = Linear(D, config.n_head * E, config.q_bias)
        self.k = Linear(D, G * E, config.k_bias) if self.source is None else None
        both = self.k is None or (config.keys_as_values and config.mixer_of(layer) == "softmax")
        self.v = None if both else Linear(D, G * E, config.v_bias)
        self.o = Linear(config.n_head * E, D, config.o_bias)
        self.gate = Linear(D, config.n_head * E, config.q_bias) if config.output_gate else None
        self.q_norm = qk_norm(own, config.n_head, config.qk_norm_over)
        self.k_norm = qk_norm(own, G, config.qk_norm_over) if self.k is not None else None
        self.beside = Mamba2(config) if config.ssm_beside else None
        self.counts = (config.n_head, G, G)
        self.joint: tuple[Linear, ...] = ()  # q, k and v as one; a tuple, so that no parameter is registered twice

    def project(self, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor, Tensor]:
        """Return q [B, H, T, E], k and v [B, G, T, E], with QK norm and RoPE applied. x [B, T, D]"""
        return project(self, x, layer, run)

    def parts(self) -> tuple[Linear, ...]:
        """Return the parts of `joint`, in the same order; none if there is no joint layer."""
        return () if self.k is None or self.v is None else (self.q, self.k, self.v)

    def initialize(self) -> None:
        """Initialize the Mamba 2 beside it, if there is one; the default is sufficient for matrices and biases."""
        if self.beside is not None:
            self.beside.initialize()

    @property
    def scoring(self) -> Scoring:
        """The rules by which scores become weights."""
        return scoring_of(self._config, self._layer, self.sinks)

    @property
    def window(self) -> int | None:
        """The number of tokens visible to a token, itself included; None for full attention."""
        return self.scoring.window

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        q, k, v = self.project(x, layer, run)
        scoring = self.scoring
        if run.cache is not None and self.source is None:
            if scoring.window is None:
                k, v = run.cache.put(layer, k, v)
            else:
                k, v = self._recent(layer, k, v, run.cache, scoring.window)
        if self.stores:
            run.beside.kv[layer] = k, v
        z = run.attend(layer, q, k, v) if scoring.plain else self._by_rules(layer, q, k, v, run, scoring)
        if self.gate is not None:
            z = run.at("mixed", layer, z) * self.gate(x).sigmoid().unflatten(-1, (-1, self.d_head)).transpose(1, 2)
        out = self.o(merge_heads(run.at("z", layer, z)))
        out = out if self.factor == 1 else out * self.factor
        if self.beside is not None:
            alone = dataclasses.replace(run, tap=None, see=None)  # the sites are those of attention
            out = out + run.at("ssm_out", layer, self.beside(x, layer, alone))
        return run.at("attn_out", layer, out)

    def _recent(self, layer: int, k: Tensor, v: Tensor, cache: KVCache, window: int) -> tuple[Tensor, Tensor]:
        """Return the stored keys and values followed by the new ones, and store the last W - 1. [B, G, S, E] each"""
        if held := cache.state(layer):
            k, v = torch.cat((held[0], k), 2), torch.cat((held[1], v), 2)
        first = 0 if cache.whole else max(k.shape[2] - window + 1, 0)
        cache.keep(layer, (k[:, :, first:].clone(), v[:, :, first:].clone()))
        return k, v

    def _by_rules(self, layer: int, q: Tensor, k: Tensor, v: Tensor, run: Pass, scoring: Scoring) -> Tensor:
        """Return the heads' outputs. The full pattern is computed only for a tap or `see`."""
        if run.see is None and not run.explicit:
            return scoring.attend(q, k, v)
        if scoring.window is not None and run.cache is not None and not run.cache.whole:
            raise ValueError("a tap finds keys by their place: give it a cache with whole=True")
        scores = scoring.scores(q, k)
        if run.explicit:
            pattern = run.at("pattern", layer, scoring.pattern(run.at("scores", layer, scores)))
        else:
            pattern = scoring.pattern(scores)
        if run.see is not None:
            run.see(layer, pattern)
        return mix(pattern, v)
