"""gpt-oss: experts with biases and a clamped gate, a learned sink per head, and windows in every second layer."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, both, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    Family,
    check_keys,
    depth,
    flag,
    layer_kinds,
    mixers,
    mixers_told,
    optional,
    told,
)
from model.loading.families.experts import expert_fields, experts_told
from model.loading.families.keys import Keys, biases, renamed, whole_rope
from model.loading.families.rope import ROPE_KEYS, rope_told

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "intermediate_size": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "num_key_value_heads": ("n_kv_head", 8),
        "head_dim": ("d_head", 64),
        "max_position_embeddings": ("n_ctx", 131_072),
        "rms_norm_eps": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
ALIASES = {"num_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
KNOWN = {
    *KEYS.names,
    *ROPE_KEYS,
    "num_local_experts",
    "num_experts_per_tok",
    "layer_types",
    "sliding_window",
    "attention_bias",
    *neutral_keys.keys_of(neutral_keys.EXPERTS | neutral_keys.GPT_OSS),
}
ACCEPTED = {
    "hidden_act": ("silu",),
    "swiglu_alpha": (1.702,),
    "swiglu_limit": (7.0,),
    "partial_rotary_factor": (1.0,),
}
YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_FIXED = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "sinks": True,
    "mlp": "swiglu_clamped",
    "mlp_bias": True,
    "router_bias": True,
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a gpt-oss config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    stored = hf.get("quantization_config")
    if isinstance(stored, dict) and stored.get("quant_method") == "mxfp4":
        hint = "Load it with transformers and Mxfp4Config(dequantize=True), save it, and load that copy."
        raise UnsupportedModel("The experts of this checkpoint are stored in 4 bits.", "quant_method = 'mxfp4'", hint)
    check_keys(hf, KNOWN, ACCEPTED)
    if hf.get("rope_parameters") is None and hf.get("rope_scaling") is None:
        hf["rope_parameters"] = YARN
    fields = KEYS.read(hf)
    fields |= expert_fields(hf, "num_local_experts", 128, 4, None, fields["d_mlp"])
    kinds = layer_kinds(hf, ["full_attention" if layer % 2 else "sliding_attention" for layer in range(depth(hf))])
    windows = mixers(kinds, optional(hf, "sliding_window", 128))
    bias = biases(flag(hf, "attention_bias", True))
    turns = whole_rope({**hf, "max_position_embeddings": fields["n_ctx"]}, 150_000.0)
    return make_config(fields | turns | _FIXED | bias | windows)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a gpt-oss config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c),
        "attention_bias": c.q_bias,
        "intermediate_size": c.d_expert,
    }
    return told(c) | KEYS.told(c) | mixers_told(c) | experts_told(c, "num_local_experts") | more


def split_pairs(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split gate and linear branch, which alternate. weight [N, D, 2 M] -> two of [N, M, D]; bias [N, 2 M] -> [N, M]"""
    parts = tensor[..., ::2], tensor[..., 1::2]
    return tuple(part.transpose(1, 2) for part in parts) if tensor.ndim == 3 else parts


def join_pairs(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Combine gate and linear branch, the inverse of `split_pairs`."""
    turned = [part.transpose(1, 2) if part.ndim == 3 else part for part in parts]
    return torch.stack(turned, -1).flatten(-2)


def transpose(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Transpose the weight of every expert. [N, in, out] -> [N, out, in]"""
    return (tensor.transpose(1, 2),)


def transpose_back(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Transpose the weight of every expert back."""
    return parts[0].transpose(1, 2)


def _gate_up(kind: str) -> Into:
    return Into(tuple(f"blocks.{{i}}.mlp.experts.{part}.{kind}" for part in ("gate", "up")), split_pairs, join_pairs)


NAMES = {theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs} | {
    "layers.{i}.self_attn.sinks": "blocks.{i}.attn.sinks",
    **both("layers.{i}.mlp.router", "blocks.{i}.mlp.router"),
    "layers.{i}.mlp.experts.gate_up_proj": _gate_up("weight"),
    "layers.{i}.mlp.experts.gate_up_proj_bias": _gate_up("bias"),
    "layers.{i}.mlp.experts.down_proj": Into(("blocks.{i}.mlp.experts.down.weight",), transpose, transpose_back),
    "layers.{i}.mlp.experts.down_proj_bias": "blocks.{i}.mlp.experts.down.bias",
}

GPT_OSS = Family("gpt-oss", to_config, Layout(NAMES, prefix="model."), to_hf)
