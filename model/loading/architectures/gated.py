"""Architectures with layers of the gated delta rule between layers of attention: Qwen3-Next and Qwen3.5.

The converter adds 1 to the gains of all norms but that of the delta rule's output, and says A = -exp(A_log). For
Qwen3.5 it orders heads of values that share a key one after the other: the first of every key, then the second.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.architectures.common import EXPERTS, NAMES, QK_NORM, SWIGLU, Architecture, changed
from model.loading.architectures.hybrids import log_rates
from model.loading.convert import Into, Layout, Names
from model.loading.families.common import integer
from model.loading.families.gated.qwen3_next import split_ba, split_gate_of_q
from model.loading.gguf_file import GgufFile

_SIZES = {
    "ssm.time_step_rank": "n_delta_head",
    "ssm.group_count": "n_delta_key",
    "ssm.state_size": "d_delta_key",
    "ssm.conv_kernel": "d_conv",
}
READS = (
    *(*_SIZES, "ssm.inner_size", "full_attention_interval", "nextn_predict_layers"),
    "rope.dimension_sections",  # of positions in images; a text has one position a token
)


def _mixers(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the mixer of each layer, seen from its tensors, and the sizes of the delta rule."""
    sizes = {ours: integer(meta, theirs) for theirs, ours in _SIZES.items()}
    sizes["d_delta_value"] = integer(meta, "ssm.inner_size") // max(sizes["n_delta_head"], 1)
    has = [f"blk.{layer}.ssm_a" in file.tensors for layer in range(min(fields["n_layer"], len(file.tensors)))]
    return sizes | {"mixer": tuple("gated_delta" if each else "softmax" for each in has)}


def by_key(tensor: Tensor, config: ModelConfig, axis: int = 0) -> Tensor:
    """Put the heads of values of each key side by side again. [n_delta_head x any, ...] along the axis"""
    keys = config.n_delta_key
    return (
        tensor.unflatten(axis, (config.n_delta_head // keys, keys, -1))
        .transpose(axis, axis + 1)
        .flatten(axis, axis + 2)
    )


def _rows(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    return (by_key(tensor, config),)


def _rates(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    return (by_key(log_rates(tensor, config)[0], config),)


def _columns(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    return (by_key(tensor, config, 1),)


def _values(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Order the rows of v, which follow those of q and k."""
    first = 2 * config.n_delta_key * config.d_delta_key
    return (torch.cat((tensor[:first], by_key(tensor[first:], config))),)


_OUR = "blocks.{i}.attn"
_COMMON: Names = {
    **NAMES,
    **QK_NORM,
    **changed("blk.{i}.attn_q", (f"{_OUR}.q", f"{_OUR}.gate"), split_gate_of_q),
    "blk.{i}.post_attention_norm.weight": "blocks.{i}.norm2.weight",  # before the MLP, in spite of its name
    "blk.{i}.ssm_norm.weight": f"{_OUR}.out_norm.weight",
}
_NEXT: Names = {
    "blk.{i}.attn_qkv.weight": f"{_OUR}.qkv.weight",
    "blk.{i}.attn_gate.weight": f"{_OUR}.gate.weight",
    "blk.{i}.ssm_ba.weight": Into((f"{_OUR}.beta.weight", f"{_OUR}.forget.weight"), split_ba),
    "blk.{i}.ssm_conv1d.weight": f"{_OUR}.conv.weight",
    "blk.{i}.ssm_dt.bias": f"{_OUR}.dt_bias",
    "blk.{i}.ssm_a": Into((f"{_OUR}.A_log",), log_rates),
    "blk.{i}.ssm_out.weight": f"{_OUR}.o.weight",
}
_TILED: Names = {
    "blk.{i}.attn_qkv.weight": Into((f"{_OUR}.qkv.weight",), _values),
    "blk.{i}.attn_gate.weight": Into((f"{_OUR}.gate.weight",), _rows),
    "blk.{i}.ssm_beta.weight": Into((f"{_OUR}.beta.weight",), _rows),
    "blk.{i}.ssm_alpha.weight": Into((f"{_OUR}.forget.weight",), _rows),
    "blk.{i}.ssm_conv1d.weight": Into((f"{_OUR}.conv.weight",), _values),
    "blk.{i}.ssm_dt.bias": Into((f"{_OUR}.dt_bias",), _rows),
    "blk.{i}.ssm_a": Into((f"{_OUR}.A_log",), _rates),
    "blk.{i}.ssm_out.weight": Into((f"{_OUR}.o.weight",), _columns),
}
_FIELDS = SWIGLU | {"qk_norm": True, "output_gate": True}
GATED: dict[str, Architecture] = {
    "qwen3next": Architecture(
        "Qwen3-Next", _FIELDS | {"shared_gate": True}, Layout(_COMMON | _NEXT | EXPERTS), READS, more=_mixers
    ),
    "qwen35": Architecture("Qwen3.5", _FIELDS, Layout(_COMMON | _TILED), READS, more=_mixers),
    "qwen35moe": Architecture(
        "Qwen3.5-MoE", _FIELDS | {"shared_gate": True}, Layout(_COMMON | _TILED | EXPERTS), READS, more=_mixers
    ),
}
