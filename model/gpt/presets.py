"""Configs of common models by name."""

from model.errors import InputError, say
from model.gpt.config import ModelConfig


def _gpt2(n_layer: int, d_model: int, n_head: int) -> ModelConfig:
    # Radford et al. 2019, table 2; numbers of heads from the configs of the published checkpoints.
    return ModelConfig(vocab_size=50257, n_ctx=1024, n_layer=n_layer, d_model=d_model, n_head=n_head)


LLAMA_STYLE = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "mlp": "swiglu",
    "mlp_bias": False,
    "q_bias": False,
    "k_bias": False,
    "v_bias": False,
    "o_bias": False,
}

PRESETS: dict[str, ModelConfig] = {
    # The textbook post-norm block: x = LN(x + f(x)), twice; embeddings times sqrt(d).
    "minigpt": ModelConfig(
        vocab_size=8192,
        n_ctx=256,
        n_layer=2,
        d_model=128,
        n_head=4,
        norm_placement="post",
        mlp="relu",
        embed_scale=True,
        tie_embeddings=False,
    ),
    # Decoder of Vaswani et al. 2017 without cross-attention: post-norm, sinusoids, ReLU, embeddings times sqrt(d).
    "vanilla-decoder": ModelConfig(
        vocab_size=37000,
        n_ctx=1024,
        n_layer=6,
        d_model=512,
        n_head=8,
        norm_placement="post",
        positions="sinusoidal",
        mlp="relu",
        embed_scale=True,
        q_bias=False,
        k_bias=False,
        v_bias=False,
        o_bias=False,
    ),
    "gpt2": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    # nanoGPT's character model: no biases, exact GELU.
    "shakespeare-char": ModelConfig(
        vocab_size=65,
        n_ctx=256,
        n_layer=6,
        d_model=384,
        n_head=6,
        norm_bias=False,
        mlp="gelu",
        mlp_bias=False,
        q_bias=False,
        k_bias=False,
        v_bias=False,
        o_bias=False,
    ),
    # The published config of SmolLM2-135M, the Llama architecture at laptop size.
    "llama": ModelConfig(
        vocab_size=49152,
        n_ctx=8192,
        n_layer=30,
        d_model=576,
        n_head=9,
        n_kv_head=3,
        d_mlp=1536,
        rope_theta=100_000.0,
        tie_embeddings=True,
        **LLAMA_STYLE,
    ),
    # The published config of Qwen3-8B, with an MLP width of 12,288 and an untied output head.
    "qwen3-8b": ModelConfig(
        vocab_size=151_936,
        n_ctx=40_960,
        n_layer=36,
        d_model=4096,
        n_head=32,
        n_kv_head=8,
        d_head=128,
        d_mlp=12_288,
        norm_eps=1e-6,
        qk_norm=True,
        rope_theta=1_000_000.0,
        tie_embeddings=False,
        **LLAMA_STYLE,
    ),
}


def _lfm2(d_model: int, d_mlp: int) -> ModelConfig:
    attention = (2, 5, 8, 10, 12, 14)
    return ModelConfig(
        **LLAMA_STYLE,
        vocab_size=65_536,
        n_ctx=128_000,
        n_layer=16,
        d_model=d_model,
        n_head=d_model // 64,
        n_kv_head=8,
        d_mlp=d_mlp,
        qk_norm=True,
        rope_theta=1_000_000.0,
        mixer=tuple("softmax" if layer in attention else "short_conv" for layer in range(16)),
        d_conv=3,
    )


_DELTA = LLAMA_STYLE | {
    "n_ctx": 262_144,
    "d_head": 256,
    "norm_eps": 1e-6,
    "qk_norm": True,
    "rope_theta": 10_000_000.0,
    "rotary_fraction": 0.25,
    "output_gate": True,
    "n_delta_key": 16,
    "d_delta_key": 128,
    "d_delta_value": 128,
    "tie_embeddings": False,
}
_FOUR = ("gated_delta", "gated_delta", "gated_delta", "softmax")
_STATE_SPACE = {
    "vocab_size": 50_280,
    "n_ctx": 2048,
    "n_layer": 24,
    "d_model": 768,
    "n_head": 24,
    "d_head": 64,
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "none",
    "mlp": "none",
}
_NEMOTRON_ATTENTION = range(4, 59, 6)
# Models with other mixers than attention, in its place, beside it or in other layers.
HYBRIDS: dict[str, ModelConfig] = {
    "mamba-130m": ModelConfig(**_STATE_SPACE, mixer="mamba"),
    "mamba2-130m": ModelConfig(**_STATE_SPACE | {"vocab_size": 50_288}, mixer="mamba2", d_state=128),
    "falcon-h1-0.5b": ModelConfig(
        **LLAMA_STYLE,
        vocab_size=32_784,
        n_ctx=16_384,
        n_layer=36,
        d_model=1024,
        n_head=8,
        n_kv_head=2,
        d_head=64,
        d_mlp=2048,
        rope_theta=1e11,
        ssm_beside=True,
        ssm_heads=24,
        d_ssm_head=64,
        d_state=128,
        ssm_norm="none",
        tie_embeddings=False,
    ),
    "nemotron-h-56b": ModelConfig(
        **LLAMA_STYLE | {"positions": "none", "mlp": "relu2"},
        vocab_size=131_072,
        n_ctx=8192,
        n_layer=64,
        d_model=8192,
        n_head=64,
        n_kv_head=8,
        d_mlp=32_768,
        mixer=tuple("softmax" if layer in _NEMOTRON_ATTENTION else "mamba2" for layer in range(64)),
        without_mlp=tuple(layer - 1 for layer in _NEMOTRON_ATTENTION),
        ssm_heads=256,
        d_ssm_head=64,
        ssm_groups=8,
        d_state=256,
        dt_min=0.001,
        tie_embeddings=False,
    ),
    "lfm2-350m": _lfm2(1024, 4608),
    "lfm2-1.2b": _lfm2(2048, 8192),
    "qwen3.5-27b": ModelConfig(
        **_DELTA,
        vocab_size=248_320,
        n_layer=64,
        d_model=5120,
        n_head=24,
        n_kv_head=4,
        d_mlp=17_408,
        mixer=_FOUR * 16,
        n_delta_head=48,
    ),
    "qwen3-next-80b-a3b": ModelConfig(
        **_DELTA,
        vocab_size=151_936,
        n_layer=48,
        d_model=2048,
        n_head=16,
        n_kv_head=2,
        d_mlp=5120,
        mixer=_FOUR * 12,
        n_delta_head=32,
        n_expert=512,
        experts_per_token=10,
        d_expert=512,
        d_shared=512,
        shared_gate=True,
    ),
}


def preset(name: str) -> ModelConfig:
    """Return the preset with this name. Raises InputError with the list of names for an unknown name."""
    if name not in PRESETS:
        raise InputError("No preset has this name.", name, say("Choose one of: {}.", ", ".join(PRESETS)))
    return PRESETS[name]
