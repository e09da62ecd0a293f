"""Gemma: embeddings times sqrt(d), a gated GELU, and norms whose gain is stored less 1.

Gemma 2 has a second norm after each sublayer, caps on scores and logits, and a sliding window in every second layer;
Gemma 3 norms of q and k in place of caps, and a RoPE base of its own for layers with a window. VaultGemma has the caps
and windows of Gemma 2, but only the norms before the sublayers.
"""

from collections.abc import Sequence

from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import llama
from model.loading.families.common import (
    GATED_ACTIVATIONS,
    Family,
    check_keys,
    choice,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    mixers_told,
    name_of,
    optional,
    real,
)
from model.loading.families.rope import rope_by_kind, rope_told_by_kind

BASIC = llama.COMMON | {"attention_bias"}
ACCEPTED = {"use_bidirectional_attention": (False,)}
# Gemma 1 reads hidden_act alone, and takes the exact GELU to mean its approximation by tanh.
_GEMMA1 = {**GATED_ACTIVATIONS, "gelu": "geglu_tanh"}


def gemma_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Gemma config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, BASIC, ACCEPTED | {"hidden_activation": ("gelu_pytorch_tanh",)})
    act = choice(hf, "hidden_act", _GEMMA1, "gelu_pytorch_tanh")
    return make_config(_fields({**hf, "hidden_act": "silu"}, kv=16) | llama.full(hf) | {"mlp": act})


def gemma2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Gemma 2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    return make_config(_gemma2_fields(hf))


def vaultgemma_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a VaultGemma config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    return make_config(_gemma2_fields(hf) | {"norm_placement": "pre"})


def _gemma2_fields(hf: dict) -> dict:
    known = BASIC | {"hidden_activation", "query_pre_attn_scalar", "sliding_window"} | set(_CAPS)
    check_keys(hf, known, ACCEPTED | _alike(hf))
    kinds = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(depth(hf))]
    fields = _fields(hf, act="hidden_activation") | _sandwich(hf) | _caps(hf, (50.0, 30.0))
    return fields | mixers(layer_kinds(hf, kinds), optional(hf, "sliding_window", 4096))


def gemma3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of Gemma 3's text model. Raises CheckpointError or UnsupportedModel with
    the name of the key.
    """
    known = BASIC | {"hidden_activation", "query_pre_attn_scalar", "sliding_window", "final_logit_softcapping"}
    known |= {"rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"}
    # Its code does not cap scores, so the key must be null.
    check_keys(hf, known, ACCEPTED | _alike(hf) | {"attn_logit_softcapping": (None,)})
    every = max(integer(hf, "sliding_window_pattern", 6), 1)
    kinds = ["sliding_attention" if (layer + 1) % every else "full_attention" for layer in range(depth(hf))]
    rotary = rope_by_kind(hf, 1_000_000.0, 10_000.0, "rope_local_base_freq")
    fields = _fields(hf, act="hidden_activation", rotary=rotary) | _sandwich(hf) | _caps(hf, (None, None))
    windows = mixers(layer_kinds(hf, kinds), optional(hf, "sliding_window", 4096))
    return make_config(fields | windows | {"qk_norm": True})


def _fields(hf: dict, kv: int = 4, **more: object) -> dict:
    """Return the fields common to all of them. Their default of head_dim is 256, and heads are tied."""
    given = {"head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", **hf}
    bias = flag(hf, "attention_bias", False)
    biases = {f"{name}_bias": bias for name in "qkvo"}
    return llama.swiglu_fields(given, kv=kv, tied=True, **more) | biases | {"embed_scale": True}


def _alike(hf: dict) -> dict:
    """Return keys that are not read, with the value of the key that is read in their place."""
    act, window = hf.get("hidden_activation", "gelu_pytorch_tanh"), hf.get("sliding_window")
    return {"hidden_act": (act,), "sliding_window_size": (window,)}


_CAPS = {"attn_logit_softcapping": "score_cap", "final_logit_softcapping": "logit_cap"}


def _caps(hf: dict, defaults: tuple[float | None, float | None]) -> dict:
    """Return the caps on scores and logits; null means no cap, and a missing key the default."""
    given = {key: hf.get(key, default) for key, default in zip(_CAPS, defaults, strict=True)}
    return {_CAPS[key]: None if value is None else real(given, key) for key, value in given.items()}


def _sandwich(hf: dict) -> dict:
    """Return the norms' places and the score's factor, which is derived from the head size if it says the same."""
    scalar, head = real(hf, "query_pre_attn_scalar", 256), integer(hf, "head_dim", 256)
    check_keys({"query_pre_attn_scalar": scalar if scalar <= 0 else None}, (), {})
    return {"norm_placement": "sandwich", "score_multiplier": None if scalar == head else scalar**-0.5}


# --- and back ---


def gemma_hf(c: ModelConfig) -> dict:
    """Return the values of a Gemma config.json, the inverse of `gemma_config`."""
    return llama.swiglu_told(c) | {"attention_bias": c.q_bias, "hidden_act": name_of(_GEMMA1, c.mlp)}


def gemma2_hf(c: ModelConfig) -> dict:
    """Return the values of a Gemma 2 config.json, the inverse of `gemma2_config`."""
    values = llama.swiglu_told(c) | mixers_told(c) | {ours: getattr(c, field) for ours, field in _CAPS.items()}
    scalar = c.d_head if c.score_multiplier is None else round(c.score_multiplier**-2)
    del values["hidden_act"]
    return values | {
        "attention_bias": c.q_bias,
        "hidden_activation": name_of(GATED_ACTIVATIONS, c.mlp),
        "query_pre_attn_scalar": scalar,
    }


def gemma3_hf(c: ModelConfig) -> dict:
    """Return the values of a config.json of Gemma 3's text model, the inverse of `gemma3_config`."""
    return gemma2_hf(c) | {"rope_parameters": rope_told_by_kind(c), "attn_logit_softcapping": None}


# --- names ---


def add_one(gain: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return the factor of a norm whose gain is stored less 1, in float32. [D]"""
    return (gain.float() + 1,)


def less_one(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the gain as it is stored, the inverse of `add_one`. [D]"""
    return parts[0] - 1


def gains(names: Names) -> Names:
    """Return the names with that conversion for every norm."""
    return {
        theirs: Into((ours,), add_one, less_one) if isinstance(ours, str) and "norm" in theirs else ours
        for theirs, ours in names.items()
    }


GEMMA_AFTER = {
    "layers.{i}.post_attention_layernorm.weight": "blocks.{i}.after1.weight",
    "layers.{i}.pre_feedforward_layernorm.weight": "blocks.{i}.norm2.weight",
    "layers.{i}.post_feedforward_layernorm.weight": "blocks.{i}.after2.weight",
}
GEMMA_NAMES = gains(llama.NAMES)
GEMMA2_NAMES = gains(llama.NAMES | GEMMA_AFTER)
VAULTGEMMA_NAMES = gains(
    {theirs: ours for theirs, ours in (llama.NAMES | GEMMA_AFTER).items() if ".post_" not in theirs}
)
GEMMA3_NAMES = GEMMA2_NAMES | gains(llama.QK_NORMS)

GEMMA = Family("Gemma", gemma_config, Layout(GEMMA_NAMES, prefix="model."), gemma_hf)
GEMMA2 = Family("Gemma 2", gemma2_config, Layout(GEMMA2_NAMES, prefix="model."), gemma2_hf)
VAULTGEMMA = Family("VaultGemma", vaultgemma_config, Layout(VAULTGEMMA_NAMES, prefix="model."), gemma2_hf)
GEMMA3 = Family("Gemma 3 (text)", gemma3_config, Layout(GEMMA3_NAMES, prefix="model."), gemma3_hf)
