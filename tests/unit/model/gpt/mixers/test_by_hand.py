"""Mixers worked out number by number: layers from their weights, and maps from the matrices of channels."""

import math

import numpy as np
import pytest
import torch

from model.gpt.mixers.names import LINEAR
from model.tracing.trace import run
from tests.support.models.helpers import D, E, G, H, assert_close, random_ids, tiny_model, tokens_of

T = 9


def silu(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-x))


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    return 1 / (1 + torch.exp(-x))


@pytest.mark.parametrize("kind", LINEAR)
@torch.no_grad()
def test_a_layer_is_its_formula_token_by_token(exact, kind):
    """Katharopoulos et al. 2020, eq. 16 to 20; Sun et al. 2023, eq. 5 to 8; Schlag et al. 2021, eq. 20 to 24."""
    model = tiny_model({"mixer": kind, "positions": "none"})
    layer = model.blocks[1].attn
    x = torch.randn(T, D, generator=torch.Generator().manual_seed(0))
    heads = []
    for h in range(H):
        own, shared = slice(h * E, (h + 1) * E), slice(h // (H // G) * E, (h // (H // G) + 1) * E)
        state, rows = torch.zeros(E, E), []
        for t in range(T):
            q, k, v = (
                (part.weight @ x[t] + part.bias)[span]
                for part, span in ((layer.q, own), (layer.k, shared), (layer.v, shared))
            )
            if kind == "delta":
                q, k = (silu(each) / silu(each).norm() for each in (q, k))
                beta = sigmoid(layer.beta.weight[h] @ x[t])
                state = state + beta * torch.outer(k, v - state.T @ k)
            else:
                q = q / math.sqrt(E)
                gate = sigmoid(layer.forget.weight[h] @ x[t] + layer.forget.bias[h]) if kind == "linear" else None
                kept = 1 - 2.0 ** (-5 - h) if gate is None else gate ** (1 / 16)
                state = kept * state + torch.outer(k, v)
            out = state.T @ q
            out = layer.out_norm.weight * out / torch.sqrt((out**2).mean() + model.config.norm_eps)
            rows.append(out if kind == "delta" else out * silu(layer.gate.weight[own] @ x[t]))
        heads.append(torch.stack(rows))
    wanted = torch.cat(heads, 1) @ layer.o.weight.T + layer.o.bias
    assert_close(layer(x[None], 1, model.prepare(0, T))[0], wanted, 1e-10)


def test_a_map_of_mamba_is_the_mean_size_of_the_heads_own_channels():
    trace = run(tiny_model({"mixer": "mamba"}), tokens_of(random_ids(1, T)[0]))
    width = trace.config.z_width(1)
    for head in range(H):
        sizes = [np.abs(trace.mixing(1, channel)) for channel in range(head * width, (head + 1) * width)]
        mean = np.mean(sizes, 0)
        assert_close(trace.pattern(1, head), mean / mean.sum(-1, keepdims=True), 1e-5)
