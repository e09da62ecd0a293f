"""Everything that claims read from one text: the sites of a single forward pass, and changed passes where asked for."""

import functools
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from model.claims.bench import Bench, losses
from model.claims.changed import Changed
from model.gpt.tap import record
from model.records import Tokens
from model.tracing.logit_lens import lens_logits
from model.tracing.norm_sites import BLOCK_NORMS

_SITES = ("embed", "pos_embed", "resid_pre", "resid_post", "norm1_in", "norm2_in", "pattern")
SITES = (*_SITES, "after1_in", "after2_in", "after1_out", "after2_out", "attn_out", "mlp_out", "mlp_pre", "mlp_post")
LENS_STEP = 4  # the logit lens is read at every fourth position


@dataclass(eq=False)
class Reading:
    """One text on one model, run once; each property is computed on first use. Measures read only these names.

    Axes: L layers, H heads, T tokens, D d_model, M d_mlp, V vocabulary.
    """

    bench: Bench
    number: int  # number of the passage
    tokens: Tokens
    sites: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts of the tokens. [T]"""
        return self.tokens.pieces

    @property
    def ids(self) -> np.ndarray:
        """The token ids. int64 [T]"""
        return self.tokens.ids

    def layers(self, site: str) -> np.ndarray:
        """Return a site of every layer, stacked along axis 0. [L, ...]"""
        return torch.stack([self.sites[site, layer][0] for layer in range(self.bench.config.n_layer)]).numpy()

    @functools.cached_property
    def pattern(self) -> np.ndarray:
        """The attention weights of every head. [L, H, T, T]"""
        return self.layers("pattern")

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """The attention weights, averaged over all heads of all layers. [T, T]"""
        return self.pattern.mean((0, 1))

    @functools.cached_property
    def stream(self) -> np.ndarray:
        """The residual stream that enters each layer, and the one that leaves the last. [L + 1, T, D]"""
        last = self.sites["resid_post", self.bench.config.n_layer - 1].numpy()
        return np.concatenate([self.layers("resid_pre"), last])

    @functools.cached_property
    def attn_out(self) -> np.ndarray:
        """The writes of attention to the residual stream, after a norm of its output if there is one. [L, T, D]"""
        return self.layers("after1_out" if ("after1_out", 0) in self.sites else "attn_out")

    @functools.cached_property
    def mlp_out(self) -> np.ndarray:
        """The writes of the MLPs to the residual stream, after a norm of their output if there is one. [L, T, D]"""
        return self.layers("after2_out" if ("after2_out", 0) in self.sites else "mlp_out")

    @functools.cached_property
    def mlp_pre(self) -> np.ndarray:
        """The inputs of the activation function. [L, T, M]"""
        return self.layers("mlp_pre")

    @functools.cached_property
    def mlp_post(self) -> np.ndarray:
        """The activations of the neurons. [L, T, M]"""
        return self.layers("mlp_post")

    @functools.cached_property
    def norm_inputs(self) -> np.ndarray:
        """The inputs of all norms of the layers. [n L, T, D] for n norms per layer"""
        sites = (f"{name}_in" for name in BLOCK_NORMS)
        return np.concatenate([self.layers(site) for site in sites if (site, 0) in self.sites])

    @functools.cached_property
    def embedding(self) -> np.ndarray:
        """The token embeddings, before positions are added. [T, D]"""
        return self.sites["embed", -1][0].detach().numpy()

    @functools.cached_property
    def positions(self) -> np.ndarray:
        """The position embeddings. [T, D]"""
        return self.sites["pos_embed", -1].detach().numpy()

    # --- predictions ---

    @functools.cached_property
    def log_probs(self) -> np.ndarray:
        """The log-probabilities of the next token at every position. [T, V]"""
        return self.bench.log_probs(torch.from_numpy(self.stream[-1]))

    @functools.cached_property
    def probs(self) -> np.ndarray:
        """The probabilities of the next token at every position. [T, V]"""
        return np.exp(self.log_probs)

    @functools.cached_property
    def ranked(self) -> np.ndarray:
        """The same probabilities, sorted from the largest. [T, V]"""
        return -np.sort(-self.probs, -1)

    @functools.cached_property
    def loss(self) -> np.ndarray:
        """The loss at each token but the first, -log p(token), in nats. [T - 1]"""
        return losses(self.log_probs, self.ids)

    @functools.cached_property
    def entropy(self) -> np.ndarray:
        """The entropy of the prediction after each token, in nats. [T]"""
        return -(self.probs * self.log_probs).sum(-1)

    @functools.cached_property
    def lens_tops(self) -> np.ndarray:
        """The most likely next token if the model stopped before each layer, and in the end. [L + 1, P]"""
        at = torch.from_numpy(self.stream[:, LENS_STEP - 1 :: LENS_STEP])
        return np.stack([lens_logits(self.bench.lm.model, x).argmax(-1).numpy() for x in at])

    @functools.cached_property
    def changed(self) -> Changed:
        """The same text in changed forward passes."""
        return Changed(self.bench, self.number, self.ids, self.stream)


@torch.inference_mode()
def read(bench: Bench, number: int) -> Reading:
    """Run one passage with every site recorded."""
    tokens, store = bench.tokens(number), {}
    bench.lm.model.trunk(torch.from_numpy(tokens.ids)[None], tap=record(SITES, store))
    return Reading(bench, number, tokens, store)
