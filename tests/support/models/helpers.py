"""Tiny models whose sizes all differ, weights far from their initial values, and a comparison that asserts."""

import asyncio
import base64
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from model.api import LanguageModel
from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.records import Tokens
from model.text.tokenizer import Tokenizer, from_tiktoken

# All sizes differ, so that a transposed axis cannot fit.
L, H, G, E, D, M, V, N_CTX = 3, 4, 2, 12, 48, 100, 53, 40
TINY = {
    "vocab_size": V,
    "n_ctx": N_CTX,
    "n_layer": L,
    "d_model": D,
    "n_head": H,
    "n_kv_head": G,
    "d_head": E,
    "d_mlp": M,
}
_NO_BIAS = {"q_bias": False, "k_bias": False, "v_bias": False, "o_bias": False, "mlp_bias": False, "norm_bias": False}
_LLAMA = {"norm": "rmsnorm", "positions": "rope", "mlp": "swiglu", **_NO_BIAS}

# One entry for every way a block can be wired.
VARIANTS: dict[str, dict] = {
    "gpt2": {"n_kv_head": H},
    "gqa": {"mlp": "gelu", "qk_norm": True},
    "llama": {**_LLAMA, "rope_theta": 100.0},
    "qwen3": {**_LLAMA, "qk_norm": True, "d_head": 14, "tie_embeddings": False, "norm_eps": 1e-3},
    "neox": {
        "n_kv_head": H,
        "parallel_residual": True,
        "positions": "rope",
        "rotary_fraction": 0.5,
        "mlp": "gelu",
        "tie_embeddings": False,
    },
    "post": {"norm_placement": "post", "positions": "sinusoidal", "mlp": "relu", "embed_scale": True},
    "post-rope": {
        "norm_placement": "post",
        "norm": "rmsnorm",
        "positions": "rope",
        "final_norm": True,
        "qk_norm": True,
    },
    "mqa": {"n_kv_head": 1, "positions": "none", "mlp": "swiglu", "final_norm": False},
}
# The rules of later families; not every analysis is defined for all of them.
_GEMMA = {"norm": "rmsnorm", "norm_placement": "sandwich", "positions": "rope", "mlp": "geglu_tanh", **_NO_BIAS}
_GEMMA4 = {
    **_GEMMA,
    "window": 5,
    "d_head": 16,
    "d_head_local": 12,
    "rope_theta": 1000.0,
    "rope_scaling": RopeScaling(kind="proportional", factor=1.0, rotated=0.25),
    "rope_theta_local": 50.0,
    "embed_scale": True,
    "score_multiplier": 1.0,
    "qk_norm": True,
    "v_norm": True,
    "layer_scale": True,
}
MORE_VARIANTS: dict[str, dict] = {
    "gemma": {
        **_GEMMA,
        "mixer": ("sliding_window", "softmax", "sliding_window"),
        "window": 5,
        "rope_theta": 1000.0,
        "rope_theta_local": 50.0,
        "score_cap": 3.0,
        "logit_cap": 5.0,
        "embed_scale": True,
        "score_multiplier": 0.2,
        "qk_norm": True,
    },
    "olmo": {**_LLAMA, "norm_placement": "output", "qk_norm": True, "qk_norm_over": "all", "qkv_limit": 0.9},
    "gptj": {
        "n_kv_head": H,
        "parallel_residual": True,
        "shared_norm": True,
        "positions": "rope",
        "rope_pairs": "adjacent",
        "rotary_fraction": 0.5,
        "unrotated": (1,),
        "qk_norm": True,
        "qk_norm_over": "each",
        "qk_norm_kind": "layernorm",
        "head_bias": True,
        "tie_embeddings": False,
    },
    "apertus": {**_LLAMA, "mlp": "xielu", "qk_norm": True},
    "bloom": {"n_kv_head": H, "positions": "alibi", "embed_norm": True, "mlp": "relu2"},
    "oss": {
        **_LLAMA,
        "mlp": "swiglu_clamped",
        "mlp_bias": True,
        "sinks": True,
        "mixer": ("softmax", "sliding_window", "softmax"),
        "window": 6,
        "embed_multiplier": 3.0,
        "residual_multiplier": 0.4,
        "logit_multiplier": 0.5,
        "norm_weight": False,
    },
}
# Layers that differ in size, read more than the stream, and scale it, as in Gemma 4; most analyses are not defined.
OWN_LAYERS: dict[str, dict] = {
    "gemma4 E2B": {
        **_GEMMA4,
        "n_layer": 4,
        "mixer": ("sliding_window", "softmax") * 2,
        "n_shared_kv": 2,
        "d_mlp_shared": 2 * M,
        "d_layer_input": 6,
        "logit_cap": 5.0,
    },
    "gemma4 31B": {
        **_GEMMA4,
        "mixer": ("sliding_window", "sliding_window", "softmax"),
        "keys_as_values": True,
        "n_kv_head": 1,
        "n_kv_head_local": 2,
    },
    "gemma4 26B-A4B": {
        **_GEMMA4,
        "mixer": ("sliding_window", "sliding_window", "softmax"),
        "keys_as_values": True,
        "n_expert": 5,
        "experts_per_token": 2,
        "d_expert": 30,
        "d_shared": 70,
        "expert_norms": True,
        "expert_scales": True,
    },
}
ALL_VARIANTS = {**VARIANTS, **MORE_VARIANTS}
# For comparisons that run a model many times: between them both norms and placements, learned and rotary positions,
# also of a part of a head, shared keys, norms of queries and keys, every kind of MLP, parallel blocks, an own table.
FEW_VARIANTS = ("gpt2", "qwen3", "neox", "post-rope")


def tiny_config(changes: Mapping[str, object] | None = None) -> ModelConfig:
    """TINY with some fields changed."""
    return ModelConfig(**{**TINY, **(changes or {})})


def tiny_model(changes: Mapping[str, object] | None = None, seed: int = 0) -> Transformer:
    """A shaken model of `tiny_config(changes)`."""
    model = Transformer(tiny_config(changes)).eval()
    shake(model, torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def shake(model: nn.Module, generator: torch.Generator) -> None:
    """Weights far from their initial values: gains and biases moved by 0.3 sigma, matrices 6 to 8 times larger.

    Fresh weights hide mistakes: gains are all 1 and can be swapped, biases are 0 and can be dropped, and every pattern
    is nearly flat. Matrices are drawn anew, so that the result depends on the generator alone.
    """
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter += 0.3 * noise
        else:
            parameter.copy_(0.02 * noise * (6 + 2 * torch.rand((), generator=generator)))


def byte_tokenizer(folder: Path, upper: int = 256) -> Tokenizer:
    """The first `upper` single bytes as tokens, read from a file in that folder."""
    ranks = folder / f"bytes{upper}.tiktoken"
    ranks.write_text("".join(f"{base64.b64encode(bytes([i])).decode()} {i}\n" for i in range(upper)))
    return from_tiktoken(ranks)


def byte_model(folder: Path, n_ctx: int = 300) -> LanguageModel:
    """A shaken model of 3 layers x 4 heads over single bytes."""
    model = tiny_model({"vocab_size": 256, "n_ctx": n_ctx})
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(folder))


def steer(site: str, layer: int, x: Tensor) -> Tensor:
    """A tap that moves the stream entering block 1."""
    return x + torch.linspace(-1, 2, D) if (site, layer) == ("resid_pre", 1) else x


def force(site: str, layer: int, x: Tensor) -> Tensor:
    """A tap by which head 2 of layer 1 reads the first token only."""
    if (site, layer) != ("pattern", 1):
        return x
    x = x.clone()
    x[:, 2] = torch.eye(x.shape[-1])[0]
    return x


def assert_close(actual, expected, atol, what: str = "values") -> None:
    """Fail with the largest error unless shapes agree and no element is further apart than `atol`.

    `atol` is a number, or one for every element or row, made by tests.support.models.rounding.
    """
    actual, expected, atol = (_double(x) for x in (actual, expected, atol))
    assert actual.shape == expected.shape, f"{what}: {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    assert torch.equal(actual.isnan(), expected.isnan()), f"{what}: NaN in other places"
    if actual.numel() == 0:
        return
    error = (actual - expected).abs().nan_to_num(0)
    allowed = atol.expand_as(error)
    worst = torch.where(error > 0, error / allowed, 0.0).argmax()
    told = f"largest error {error.flatten()[worst]:.3g}, allowed {allowed.flatten()[worst]:.3g} there"
    assert (error <= allowed).all(), f"{what}: {told}"


def _double(x) -> Tensor:
    return x.detach().double() if torch.is_tensor(x) else torch.tensor(np.asarray(x), dtype=torch.float64)


def randn(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers of a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def random_ids(batch: int, length: int, seed: int = 1, vocab_size: int = V) -> Tensor:
    """Random token ids. [B, T]"""
    return torch.randint(0, vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def tokens_of(ids, pieces: tuple[str, ...] | None = None) -> Tokens:
    """Tokens of the given ids; pieces are "t<id>" where none are given."""
    ids = np.asarray(ids, dtype=np.int64)
    pieces = pieces or tuple(f"t{i}" for i in ids)
    raw = tuple(piece.encode() for piece in pieces)
    ends = np.cumsum([len(part) for part in raw], dtype=np.int64)
    return Tokens(ids, pieces, raw, np.stack((ends - [len(part) for part in raw], ends), 1))


def written(ticks, row: int = 0) -> tuple[list[int], str]:
    """The new ids of one strategy's text and why it ended, from the steps of a generation."""
    ids, ended = [], ""
    for tick in ticks:
        change = tick.changes[row]
        if change is None:
            continue
        assert not ended and change.drop <= len(ids)
        ids = [*ids[: len(ids) - change.drop], *(made.id for made in change.made)]
        ended = change.ended
    return ids, ended


def apart(coroutine):
    """What a coroutine returns, run in a thread of its own: a browser that was driven before keeps this one's loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def serving(lm: LanguageModel, options=None):
    """A server (viz.work.playground.Playground) whose only model is `lm`, under the id "tiny"."""
    from viz.work.playground import Options, Playground

    ours = Playground(replace(options or Options(model="tiny", max_tokens=40), examples=False))
    ours.models.get("tiny", lambda: lm)
    return ours
