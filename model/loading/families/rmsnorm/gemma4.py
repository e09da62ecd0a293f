"""Gemma 4 (text): layers with a sliding window have heads of another size, and often another number of KV heads.

All have a norm of values without a gain, and a number that scales the stream after each layer. The E2B and E4B models
give each layer a vector of each token, and their last layers use keys and values of earlier ones; the 31B and 26B-A4B
models use keys as values where attention is full. The last one has experts beside the MLP of each layer.
"""

import re
from collections.abc import Mapping

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama
from model.loading.families.common import (
    GATED_ACTIVATIONS,
    Family,
    check_keys,
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
from model.loading.families.experts import STACKED, expert_fields, join_gate, split_gate
from model.loading.families.gemma import GEMMA_AFTER
from model.loading.families.rope import ROPE_KEYS, rope_by_kind, rope_told_by_kind

_KNOWN = (llama.COMMON - ROPE_KEYS - {"hidden_act"}) | {
    "rope_parameters",
    *("attention_bias", "hidden_activation", "sliding_window", "final_logit_softcapping"),
    *("global_head_dim", "num_global_key_value_heads", "per_layer_config", "attention_k_eq_v"),
    *("num_kv_shared_layers", "use_double_wide_mlp", "hidden_size_per_layer_input", "vocab_size_per_layer_input"),
}
# With "vision", the tokens of an image attend to later ones; text alone does not.
_ACCEPTED = {"use_bidirectional_attention": (False, "vision")}
# not read without enable_moe_block
_EXPERTS = ("enable_moe_block", "num_experts", "top_k_experts", "moe_intermediate_size")
_ROPE = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}


def gemma4_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of Gemma 4's text model. Raises CheckpointError or UnsupportedModel with
    the name of the key.
    """
    check_keys(hf, _KNOWN | set(_EXPERTS), _ACCEPTED)
    n_layer = depth(hf)
    every = ["sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(n_layer)]
    kinds = [*layer_kinds(hf, every)[: n_layer - 1], "full_attention"]  # transformers makes the last layer a full one
    given = {"hidden_activation": "gelu_pytorch_tanh", **hf, "head_dim": integer(hf, "head_dim", 256)}
    if hf.get("rope_parameters") is None:
        given["rope_parameters"] = _ROPE
    fields = llama.swiglu_fields(
        given, kv=4, tied=True, act="hidden_activation", rotary=rope_by_kind(given, 1_000_000.0, 10_000.0)
    )
    fields |= mixers(kinds, optional(hf, "sliding_window", 512)) | _sizes(given, kinds, fields)
    if fields["rope_theta_local"] is None and fields["rope_scaling"] is None:
        fields["rope_theta_local"] = fields["rope_theta"]
    bias = flag(hf, "attention_bias", False)
    cap = hf.get("final_logit_softcapping")
    return make_config(
        fields
        | {f"{name}_bias": bias for name in "qkvo"}
        | {"norm_placement": "sandwich", "qk_norm": True, "v_norm": True, "layer_scale": True, "embed_scale": True}
        | {"score_multiplier": 1.0, "logit_cap": None if cap is None else real(hf, "final_logit_softcapping")}
        | {"keys_as_values": flag(hf, "attention_k_eq_v", False), "d_layer_input": _layer_input(hf)}
        | (_experts(hf, fields) if flag(hf, "enable_moe_block", False) else {})
    )


def _experts(hf: Mapping, fields: Mapping) -> dict:
    """Return the fields of experts; the MLP beside them has the width of a dense one. Raises UnsupportedModel if some
    layers have a wider one.
    """
    if fields["d_mlp_shared"] is not None:
        check_keys(hf, hf, {"use_double_wide_mlp": (False,)})
    found = expert_fields(hf, "num_experts", 128, 8, None, integer(hf, "moe_intermediate_size", 704), "top_k_experts")
    return found | {"d_shared": fields["d_mlp"], "expert_norms": True, "expert_scales": True}


def _sizes(hf: Mapping, kinds: list[str], fields: Mapping) -> dict:
    """Return the sizes of layers with full attention, those of layers with a window, and those of the last layers."""
    head, kv = fields["d_head"], fields["n_kv_head"]
    own = _own(hf, kinds, head, kv)
    n_shared = optional(hf, "num_kv_shared_layers", 0) or None
    wide = n_shared is not None and flag(hf, "use_double_wide_mlp", False)
    near = "sliding_attention" in kinds
    return {
        "d_head": own[0],
        "n_kv_head": own[1],
        "d_head_local": head if near and head != own[0] else None,
        "n_kv_head_local": kv if near and kv != own[1] else None,
        "n_shared_kv": n_shared,
        "d_mlp_shared": 2 * fields["d_mlp"] if wide else None,
    }


def _own(hf: Mapping, kinds: list[str], head: int, kv: int) -> tuple[int, int]:
    """Return the head size and the number of KV heads of layers with full attention."""
    told = hf.get("per_layer_config")
    if told is None:
        shared = flag(hf, "attention_k_eq_v", False)
        return integer(hf, "global_head_dim", 512), integer(hf, "num_global_key_value_heads", kv) if shared else kv
    full = {layer for layer, kind in enumerate(kinds) if kind == "full_attention"}
    entries = {key: each for key, each in told.items() if each} if isinstance(told, Mapping) else {"": told}
    numbers = {int(key) for key in entries if isinstance(key, str) and re.fullmatch("[0-9]{1,6}", key)}
    first = next(iter(entries.values()), {})
    if entries and (
        numbers != full or not isinstance(first, Mapping) or any(each != first for each in entries.values())
    ):
        what = "per_layer_config must give all layers of full attention the same sizes, and no others any."
        raise UnsupportedModel(what, repr(told)[:80], "Use a published checkpoint.")
    check_keys(first, {"head_dim", "num_key_value_heads"}, {})
    return integer(first, "head_dim", head), integer(first, "num_key_value_heads", kv)


def _layer_input(hf: Mapping) -> int | None:
    """Return the width of the tokens' vectors for each layer. Raises CheckpointError for a vocabulary of their own."""
    width = optional(hf, "hidden_size_per_layer_input", 256) or None
    if width and integer(hf, "vocab_size_per_layer_input", 262_144) != integer(hf, "vocab_size"):
        got = f"vocab_size_per_layer_input {hf.get('vocab_size_per_layer_input', 262_144)}"
        raise CheckpointError("The vectors of each layer have another vocabulary.", got, "Correct the config.")
    return width


def gemma4_hf(c: ModelConfig) -> dict:
    """Return the values of a config.json of Gemma 4's text model, the inverse of `gemma4_config`."""
    values = llama.swiglu_told(c) | mixers_told(c)
    del values["hidden_act"]
    shared = c.n_shared_kv or 0
    return values | {
        "attention_bias": c.q_bias,
        "hidden_activation": name_of(GATED_ACTIVATIONS, c.mlp),
        "head_dim": c.d_head_local or c.d_head,
        "num_key_value_heads": c.n_kv_head_local or c.n_kv_head,
        "global_head_dim": c.d_head,
        "num_global_key_value_heads": c.n_kv_head,
        "rope_parameters": rope_told_by_kind(c),
        "final_logit_softcapping": c.logit_cap,
        "attention_k_eq_v": c.keys_as_values,
        "num_kv_shared_layers": shared,
        "use_double_wide_mlp": c.d_mlp_shared is not None,
        "hidden_size_per_layer_input": c.d_layer_input or 0,
        "vocab_size_per_layer_input": c.vocab_size,
        "enable_moe_block": c.n_expert > 1,
        **({"num_experts": c.n_expert, "top_k_experts": c.experts_per_token} if c.n_expert > 1 else {}),
        "moe_intermediate_size": c.d_expert,
    }


NAMES = (
    llama.NAMES
    | llama.QK_NORMS
    | GEMMA_AFTER
    | {
        "layers.{i}.layer_scalar": "blocks.{i}.scale",
        "layers.{i}.per_layer_input_gate.weight": "blocks.{i}.entry.gate.weight",
        "layers.{i}.per_layer_projection.weight": "blocks.{i}.entry.up.weight",
        "layers.{i}.post_per_layer_input_norm.weight": "blocks.{i}.entry.norm.weight",
        "embed_tokens_per_layer.weight": "entry_embed.weight",
        "per_layer_model_projection.weight": "entry_proj.weight",
        "per_layer_projection_norm.weight": "entry_norm.weight",
    }
)


_PROJECTIONS = ("gate", "up", "down")
# The norm before the MLP has no gain then; router, experts and the MLP beside them have one each.
WITH_EXPERTS = (
    NAMES
    | {f"layers.{{i}}.mlp.{name}_proj.weight": f"blocks.{{i}}.mlp.shared.{name}.weight" for name in _PROJECTIONS}
    | {
        "layers.{i}.experts.gate_up_proj": Into(STACKED[:2], split_gate, join_gate),
        "layers.{i}.experts.down_proj": STACKED[2],
        "layers.{i}.router.proj.weight": "blocks.{i}.mlp.router.weight",
        "layers.{i}.router.scale": "blocks.{i}.mlp.router_gain",
        "layers.{i}.router.per_expert_scale": "blocks.{i}.mlp.scales",
        "layers.{i}.pre_feedforward_layernorm.weight": "blocks.{i}.mlp.shared_gain",
        "layers.{i}.pre_feedforward_layernorm_2.weight": "blocks.{i}.mlp.experts_gain",
        "layers.{i}.post_feedforward_layernorm_1.weight": "blocks.{i}.mlp.shared_after.weight",
        "layers.{i}.post_feedforward_layernorm_2.weight": "blocks.{i}.mlp.experts_after.weight",
    }
)


def layout_of(hf: Mapping) -> Layout:
    """Return the layout. Published files also have keys and values of the layers that use those of earlier ones."""
    n_layer = depth(hf)
    last = range(n_layer - (optional(hf, "num_kv_shared_layers", 0) or 0), n_layer)
    unread = tuple(f"layers.{layer}.self_attn.{name}" for layer in last for name in ("k_proj", "v_proj", "k_norm"))
    names = WITH_EXPERTS if flag(hf, "enable_moe_block", False) else NAMES
    return Layout(names, prefix="model.", unread=unread)


GEMMA4 = Family("Gemma 4 (text)", gemma4_config, Layout(NAMES, prefix="model."), gemma4_hf, layout_of)
