"""Qwen3-Next and Qwen3.5: layers of the gated delta rule, with attention in every fourth, whose output has a gate.

Gains of norms are stored less 1, except those of the delta rule's output. Layers that predict further tokens (MTP) are
left out, as in transformers.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    Family,
    check_keys,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    name_of,
)
from model.loading.families.experts import expert_fields
from model.loading.families.gemma import gains
from model.loading.families.keys import fraction_of
from model.loading.families.others.mamba import squeeze
from model.loading.families.qwen import QWEN2_MOE_NAMES, dense_layers, qwen_experts_told
from model.loading.families.rope import rope

_SIZES = {
    "linear_num_value_heads": ("n_delta_head", 32),
    "linear_num_key_heads": ("n_delta_key", 16),
    "linear_key_head_dim": ("d_delta_key", 128),
    "linear_value_head_dim": ("d_delta_value", 128),
    "linear_conv_kernel_dim": ("d_conv", 4),
}
_KINDS = {"full_attention": "softmax", "linear_attention": "gated_delta"}
_EXPERTS = {"moe_intermediate_size", "num_experts_per_tok", "num_experts", "shared_expert_intermediate_size"}
_EXPERTS |= neutral_keys.keys_of(neutral_keys.EXPERTS)
COMMON = llama.COMMON | {*_SIZES, "attention_bias", "full_attention_interval"}
NEXT_KEYS = COMMON | _EXPERTS | {"norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"}
QWEN3_5_KEYS = COMMON | neutral_keys.keys_of(neutral_keys.QWEN3_5)
ACCEPTED = {"hidden_act": ("silu", "swish"), "attn_output_gate": (True,), "use_sliding_window": (False,)}
_MROPE = ("mrope_section", "mrope_interleaved")  # how positions of images are laid out; a text has one position a token


def next_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen3-Next config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, NEXT_KEYS, ACCEPTED)
    width = integer(hf, "moe_intermediate_size", 512)
    experts = expert_fields(hf, "num_experts", 512, 10, True, width) | _shared(hf)
    return make_config(_fields({"intermediate_size": 5632, **hf}, kv=2) | experts | dense_layers(hf))


def qwen3_5_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of Qwen3.5's text model. Raises CheckpointError or UnsupportedModel with
    the name of the key.
    """
    check_keys(hf, QWEN3_5_KEYS, ACCEPTED)
    return make_config(_fields(hf, kv=4))


def qwen3_5_moe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of Qwen3.5's text model with experts. Raises CheckpointError or
    UnsupportedModel with the name of the key.
    """
    check_keys(hf, QWEN3_5_KEYS | _EXPERTS, ACCEPTED | {"norm_topk_prob": (True,)})
    width = integer(hf, "moe_intermediate_size", 512)
    experts = expert_fields(hf, "num_experts", 256, 8, None, width) | _shared(hf)
    return make_config(_fields({**hf, "intermediate_size": width}, kv=2) | experts)


def _shared(hf: Mapping) -> dict:
    return {"d_shared": integer(hf, "shared_expert_intermediate_size", 512), "shared_gate": True}


def _fields(hf: dict, kv: int) -> dict:
    """Return the fields common to all of them: a quarter of a head of 256 dimensions is rotated by default."""
    hf = {"head_dim": 256, **hf}
    every = max(integer(hf, "full_attention_interval", 4), 1)
    kinds = ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(depth(hf))]
    given = hf.get("rope_parameters")
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key not in _MROPE}
    rotary = rope({**hf, "rope_parameters": given}, default_fraction=0.25)
    bias = flag(hf, "attention_bias", False)
    return (
        llama.swiglu_fields(hf, kv=kv, rotary=rotary)
        | {ours: integer(hf, theirs, default) for theirs, (ours, default) in _SIZES.items()}
        | {f"{name}_bias": bias for name in "qkvo"}
        | mixers(layer_kinds(hf, kinds, names=_KINDS), None, names=_KINDS)
        | {"qk_norm": True, "output_gate": True}
    )


# --- and back ---


def _told(c: ModelConfig) -> dict:
    values = llama.swiglu_told(c) | {theirs: getattr(c, ours) for theirs, (ours, _) in _SIZES.items()}
    values["rope_parameters"]["partial_rotary_factor"] = fraction_of(c.d_rotary, c.d_head)
    gated = {} if c.output_gate else {"attn_output_gate": False}
    kinds = [name_of(_KINDS, name) for name in c.mixers]
    return values | gated | {"attention_bias": c.q_bias, "layer_types": kinds}


def next_hf(c: ModelConfig) -> dict:
    """Return the values of a Qwen3-Next config.json, the inverse of `next_config`."""
    return _told(c) | qwen_experts_told(c) | {"shared_expert_intermediate_size": c.d_shared}


def qwen3_5_hf(c: ModelConfig) -> dict:
    """Return the values of a config.json of Qwen3.5's text model, the inverse of `qwen3_5_config`."""
    return _told(c)


# --- weights ---


def split_gate_of_q(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q and the output gate, which alternate by head. [H 2 E, ...] -> two of [H E, ...]"""
    q, gate = tensor.unflatten(0, (config.n_head, 2, config.d_head)).unbind(1)
    return q.flatten(0, 1), gate.flatten(0, 1)


def join_gate_of_q(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Interleave q and the output gate by head, the inverse of `split_gate_of_q`."""
    return torch.stack([part.unflatten(0, (config.n_head, -1)) for part in parts], 1).flatten(0, 2)


def _of_a_key(config: ModelConfig) -> tuple[int, ...]:
    """Return the rows of q, k, v and the gate that belong to one head of keys."""
    values = config.n_delta_head // config.n_delta_key * config.d_delta_value
    return config.d_delta_key, config.d_delta_key, values, values


def split_qkvz(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k, v and the gate, which are grouped by head of keys, into [q; k; v] and the gate. [n, D] each"""
    parts = tensor.unflatten(0, (config.n_delta_key, -1)).split(_of_a_key(config), 1)
    q, k, v, gate = (part.flatten(0, 1) for part in parts)
    return torch.cat((q, k, v)), gate


def join_qkvz(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Group q, k, v and the gate by head of keys, the inverse of `split_qkvz`."""
    key, n = config.n_delta_key * config.d_delta_key, config.n_delta_key
    each = [*parts[0].split((key, key, len(parts[0]) - 2 * key)), parts[1]]
    return torch.cat([part.unflatten(0, (n, -1)) for part in each], 1).flatten(0, 1)


def split_ba(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split beta and the decay's input, which are grouped by head of keys. [2 n, D] -> two of [n, D]"""
    return tuple(part.flatten(0, 1) for part in tensor.unflatten(0, (config.n_delta_key, 2, -1)).unbind(1))


def join_ba(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Group beta and the decay's input by head of keys, the inverse of `split_ba`."""
    return torch.stack([part.unflatten(0, (config.n_delta_key, -1)) for part in parts], 1).flatten(0, 2)


def unsqueeze(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Add the axis of size 1 of a convolution over single channels, the inverse of `squeeze`. [I, K] -> [I, 1, K]"""
    return parts[0].unsqueeze(1)


_AT, _OURS = "layers.{i}.linear_attn", "blocks.{i}.attn"
_Q = "layers.{i}.self_attn.q_proj"
_BOTH = {
    f"{_Q}.{kind}": Into((f"{_OURS}.q.{kind}", f"{_OURS}.gate.{kind}"), split_gate_of_q, join_gate_of_q)
    for kind in ("weight", "bias")
}
_DELTA: Names = {
    f"{_AT}.conv1d.weight": Into((f"{_OURS}.conv.weight",), squeeze, unsqueeze),
    f"{_AT}.dt_bias": f"{_OURS}.dt_bias",
    f"{_AT}.A_log": f"{_OURS}.A_log",
    f"{_AT}.norm.weight": f"{_OURS}.out_norm.weight",
    f"{_AT}.out_proj.weight": f"{_OURS}.o.weight",
}
_FUSED: Names = {
    f"{_AT}.in_proj_qkvz.weight": Into((f"{_OURS}.qkv.weight", f"{_OURS}.gate.weight"), split_qkvz, join_qkvz),
    f"{_AT}.in_proj_ba.weight": Into((f"{_OURS}.beta.weight", f"{_OURS}.forget.weight"), split_ba, join_ba),
}
_APART: Names = {
    f"{_AT}.in_proj_{theirs}.weight": f"{_OURS}.{ours}.weight"
    for theirs, ours in {"qkv": "qkv", "z": "gate", "b": "beta", "a": "forget"}.items()
}
_DENSE = gains(llama.NAMES | llama.QK_NORMS) | _BOTH | _DELTA
_MIXED = gains(QWEN2_MOE_NAMES | llama.QK_NORMS) | _BOTH | _DELTA
MTP = ("mtp.", "model.mtp.")

QWEN3_NEXT = Family("Qwen3-Next", next_config, Layout(_MIXED | _FUSED, prefix="model.", beside=MTP), next_hf)
QWEN3_5 = Family("Qwen3.5 (text)", qwen3_5_config, Layout(_DENSE | _APART, "model.", beside=MTP), qwen3_5_hf)
QWEN3_5_MOE = Family("Qwen3.5-MoE (text)", qwen3_5_moe_config, Layout(_MIXED | _APART, "model.", beside=MTP))
