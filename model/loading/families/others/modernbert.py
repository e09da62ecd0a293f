"""ModernBERT: two-way attention, in two of three layers within a window; RoPE with two bases, pre-norm, gated GELU."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, choice, flag, integer, name_of, real, sizes, told
from model.loading.families.fused import join_qkv, split_qkv
from model.loading.families.others.heads import without_head

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "intermediate_size": "d_mlp",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_ctx",
}
KNOWN = {
    *SIZES,
    *("attention_bias", "norm_eps", "norm_bias", "mlp_bias", "decoder_bias", "tie_word_embeddings"),
    *("layer_types", "global_attn_every_n_layers", "local_attention", "rope_parameters"),
    *("global_rope_theta", "local_rope_theta", "hidden_activation", "classifier_bias"),
    *neutral_keys.keys_of(neutral_keys.MODERNBERT),
}
ACCEPTED = {"classifier_activation": ("gelu",)}
KINDS = {"full_attention": "softmax", "sliding_attention": "sliding_window"}
GLOBAL, LOCAL = 160_000.0, 10_000.0  # defaults of the bases


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a ModernBERT config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = sizes(hf, SIZES)
    every = integer(hf, "global_attn_every_n_layers", 3)
    default = ["sliding_attention" if layer % every else "full_attention" for layer in range(fields["n_layer"])]
    kinds = hf.get("layer_types") or default
    bases = hf.get("rope_parameters") or {}
    whole, near = (bases.get(kind) or {} for kind in KINDS)
    check_keys(whole, {"rope_type", "rope_theta"}, {"rope_type": ("default",)})
    check_keys(near, {"rope_type", "rope_theta"}, {"rope_type": ("default",)})
    bias, mlp_bias = flag(hf, "attention_bias", False), flag(hf, "mlp_bias", False)
    check_keys({"classifier_bias": flag(hf, "classifier_bias", False)}, (), {"classifier_bias": (mlp_bias,)})
    return make_config(
        fields
        | {f"{name}_bias": bias for name in "qkvo"}
        | {
            "mixer": tuple(choice({"layer_types": kind}, "layer_types", KINDS, "") for kind in kinds),
            "window": 2 * (integer(hf, "local_attention", 128) // 2) + 1,
            "positions": "rope",
            "rope_theta": real(whole, "rope_theta", real(hf, "global_rope_theta", GLOBAL)),
            "rope_theta_local": real(near, "rope_theta", real(hf, "local_rope_theta", LOCAL)),
            "norm_eps": real(hf, "norm_eps", 1e-5),
            "norm_bias": flag(hf, "norm_bias", False),
            "mlp": choice(hf, "hidden_activation", {"gelu": "geglu"}, "gelu"),
            "mlp_bias": mlp_bias,
            "embed_norm": True,
            "unnormed": (0,),
            "two_way": True,
            "head_dense": True,
            "head_bias": flag(hf, "decoder_bias", True),
            "tie_embeddings": flag(hf, "tie_word_embeddings", True),
        }
        | without_head(hf)
    )


def told_of(c: ModelConfig) -> dict:
    """Return ModernBERT's config.json of a ModelConfig, the inverse of `to_config`."""
    values = told(c) | {theirs: getattr(c, ours) for theirs, ours in SIZES.items()}
    bases = {"full_attention": c.rope_theta, "sliding_attention": c.rope_theta_local or c.rope_theta}
    return values | {
        "layer_types": [name_of(KINDS, name) for name in c.mixers],
        "local_attention": (c.window or 1) - 1,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        "attention_bias": c.q_bias,
        "mlp_bias": c.mlp_bias,
        "classifier_bias": c.mlp_bias,
        "norm_eps": c.norm_eps,
        "norm_bias": c.norm_bias,
        "hidden_activation": name_of({"gelu": "geglu"}, c.mlp),
        "decoder_bias": c.head_bias,
    }


def split_gate(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split the gate and the linear branch, concatenated along the outputs. [2 M, ...] -> two of [M, ...]"""
    return tensor.unflatten(0, (2, -1)).unbind(0)


def join_gate(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Concatenate gate and linear branch, the inverse of `split_gate`."""
    return torch.cat(tuple(parts))


def _names() -> Names:
    names: Names = {
        "embeddings.tok_embeddings.weight": "embed.weight",
        "decoder.weight": "unembed.weight",
        "decoder.bias": "unembed.bias",
    }
    for kind in ("weight", "bias"):
        qkv = tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv")
        gated = tuple(f"blocks.{{i}}.mlp.{part}.{kind}" for part in ("gate", "up"))
        names |= {
            f"embeddings.norm.{kind}": f"embed_norm.{kind}",
            f"layers.{{i}}.attn_norm.{kind}": f"blocks.{{i}}.norm1.{kind}",
            f"layers.{{i}}.attn.Wqkv.{kind}": Into(qkv, split_qkv, join_qkv),
            f"layers.{{i}}.attn.Wo.{kind}": f"blocks.{{i}}.attn.o.{kind}",
            f"layers.{{i}}.mlp_norm.{kind}": f"blocks.{{i}}.norm2.{kind}",
            f"layers.{{i}}.mlp.Wi.{kind}": Into(gated, split_gate, join_gate),
            f"layers.{{i}}.mlp.Wo.{kind}": f"blocks.{{i}}.mlp.down.{kind}",
            f"final_norm.{kind}": f"final_norm.{kind}",
            f"head.dense.{kind}": f"head_dense.{kind}",
            f"head.norm.{kind}": f"head_norm.{kind}",
        }
    return names


MODERNBERT = Family("ModernBERT", to_config, Layout(_names(), prefix="model."), told_of)
