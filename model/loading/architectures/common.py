"""Shared parts of the GGUF architectures: their entry, tables of tensor names, and conversions of tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, both
from model.loading.families.fused import split_qkv
from model.loading.gguf_file import GgufFile

ROPE_FACTORS = "rope_freqs.weight"
ROPE_SHORT, ROPE_LONG = "rope_factors_short.weight", "rope_factors_long.weight"
More = Callable[[GgufFile, Mapping, Mapping], dict[str, Any]]  # (file, metadata, fields so far) -> more fields


@dataclass(frozen=True)
class Architecture:
    """One value of general.architecture: the config fields that it implies, its tensor names, and what it reads."""

    label: str
    fields: dict[str, Any]
    layout: Layout
    reads: tuple[str, ...] = ()  # keys of its own after "<architecture>.", of those in `metadata.NUMBERS` and others
    full_every: int = 0  # with a sliding window, every n-th layer has full attention; 0: none has
    whole_pairs: bool = True  # whether the limits of YaRN are rounded to whole pairs
    more: More | None = None
    plain: Callable[[Mapping], dict[str, Any]] | None = None  # numbers in place of lists for layers that differ
    by_layer: tuple[str, ...] = ()  # keys with a list, 0 for layers that do not have it, in place of a number
    layout_of: Callable[[GgufFile], Layout] | None = None  # the names of a file, where they depend on its tensors
    with_tensor: dict[str, "Architecture"] = field(default_factory=dict)  # other entries, for files with a tensor


# --- conversions -----------------------------------------------------------------------------------


def split_gate(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split the gate and the linear branch of an MLP. [2 M, ...] -> two of [M, ...]"""
    return tensor.split(config.d_mlp)


def unpermute_q(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Apply `unpermute` to q, which has n_head heads."""
    return (unpermute(tensor, config.n_head),)


def unpermute_k(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Apply `unpermute` to k, which has n_kv_head heads."""
    return (unpermute(tensor, config.n_kv_head),)


def unpermute(tensor: Tensor, n_head: int) -> Tensor:
    """Convert each head's rows from interleaved pairs to half-split order. [n * E, ...] -> [n * E, ...]

    Row 2 i + s becomes row s E / 2 + i.
    """
    pairs = tensor.unflatten(0, (n_head, -1, 2))  # [n, E / 2, 2, ...]
    return pairs.transpose(1, 2).flatten(0, 2)


def as_row(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return a vector as a matrix of one row. [D] or [1, D] -> [1, D]"""
    return (tensor.reshape(1, -1),)


def flat(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return a tensor's numbers on one axis. [J, 1] -> [J], or [G, I / G] -> [I]"""
    return (tensor.flatten(),)


# --- names -----------------------------------------------------------------------------------------


def changed(theirs: str, ours: tuple[str, ...], change: Any) -> Names:
    """Return the names of a weight and its bias that pass a conversion."""
    return {f"{theirs}.{kind}": Into(tuple(f"{name}.{kind}" for name in ours), change) for kind in ("weight", "bias")}


NAMES: Names = {
    "token_embd.weight": "embed.weight",
    **both("blk.{i}.attn_norm", "blocks.{i}.norm1"),
    **both("blk.{i}.attn_q", "blocks.{i}.attn.q"),
    **both("blk.{i}.attn_k", "blocks.{i}.attn.k"),
    **both("blk.{i}.attn_v", "blocks.{i}.attn.v"),
    **both("blk.{i}.attn_output", "blocks.{i}.attn.o"),
    **both("blk.{i}.ffn_norm", "blocks.{i}.norm2"),
    **both("blk.{i}.ffn_gate", "blocks.{i}.mlp.gate"),
    **both("blk.{i}.ffn_up", "blocks.{i}.mlp.up"),
    **both("blk.{i}.ffn_down", "blocks.{i}.mlp.down"),
    **both("output_norm", "final_norm"),
    **both("output", "unembed"),
    ROPE_FACTORS: None,
}
# The converter reorders the rows of q and k so that pairs are adjacent for rotation.
PERMUTED: Names = {
    **changed("blk.{i}.attn_q", ("blocks.{i}.attn.q",), unpermute_q),
    **changed("blk.{i}.attn_k", ("blocks.{i}.attn.k",), unpermute_k),
}
QK_NORM: Names = {
    "blk.{i}.attn_q_norm.weight": "blocks.{i}.attn.q_norm.weight",
    "blk.{i}.attn_k_norm.weight": "blocks.{i}.attn.k_norm.weight",
}
# The norms after the sublayers; norms before them have the names of `NAMES`.
AFTER: Names = {
    "blk.{i}.post_attention_norm.weight": "blocks.{i}.after1.weight",
    "blk.{i}.post_ffw_norm.weight": "blocks.{i}.after2.weight",
}
FUSED_QKV = changed("blk.{i}.attn_qkv", tuple(f"blocks.{{i}}.attn.{part}" for part in "qkv"), split_qkv)
FUSED_GATE = changed("blk.{i}.ffn_up", ("blocks.{i}.mlp.gate", "blocks.{i}.mlp.up"), split_gate)
POSITIONS: Names = {"position_embd.weight": "pos_embed.weight"}
EXPERTS: Names = {
    **both("blk.{i}.ffn_gate_inp", "blocks.{i}.mlp.router"),
    **both("blk.{i}.ffn_gate_exps", "blocks.{i}.mlp.experts.gate"),
    **both("blk.{i}.ffn_up_exps", "blocks.{i}.mlp.experts.up"),
    **both("blk.{i}.ffn_down_exps", "blocks.{i}.mlp.experts.down"),
    **both("blk.{i}.ffn_gate_shexp", "blocks.{i}.mlp.shared.gate"),
    **both("blk.{i}.ffn_up_shexp", "blocks.{i}.mlp.shared.up"),
    **both("blk.{i}.ffn_down_shexp", "blocks.{i}.mlp.shared.down"),
    "blk.{i}.ffn_gate_inp_shexp.weight": Into(("blocks.{i}.mlp.shared_gate.weight",), as_row),
}

# Experts whose choice has an offset; what their weights are computed from, and their multiplier, the file says.
OFFSET: Names = EXPERTS | {"blk.{i}.exp_probs_b.bias": "blocks.{i}.mlp.offset"}
ROUTING = ("expert_gating_func", "expert_weights_scale", "nextn_predict_layers")

SWIGLU = {"norm": "rmsnorm", "positions": "rope", "mlp": "swiglu"}
