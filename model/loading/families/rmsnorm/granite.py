"""Granite: Llama with multipliers of the embeddings, the scores, each sublayer and the logits; with experts in
GraniteMoE.
"""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    GATED_ACTIVATIONS,
    Family,
    check_keys,
    choice,
    flag,
    integer,
    name_of,
    real,
    told,
)
from model.loading.families.experts import STACKED, expert_fields, experts_told, join_gate, split_gate
from model.loading.families.keys import Keys, biases, whole_rope
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
        "max_position_embeddings": ("n_ctx", 2048),
        "rms_norm_eps": ("norm_eps", 1e-6),
        "embedding_multiplier": ("embed_multiplier", 1.0),
        "residual_multiplier": ("residual_multiplier", 1.0),
        "attention_multiplier": ("score_multiplier", 1.0),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {
    *KEYS.names,
    *ROPE_KEYS,
    "num_key_value_heads",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
    "logits_scaling",
}
MOE_KNOWN = KNOWN - {"mlp_bias"} | {
    "num_local_experts",
    "num_experts_per_tok",
    *neutral_keys.keys_of(neutral_keys.EXPERTS),
}
ACCEPTED = {"partial_rotary_factor": (1.0,)}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Granite config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    return make_config(shared_fields(hf) | {"mlp_bias": flag(hf, "mlp_bias", False)})


def moe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GraniteMoE config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, MOE_KNOWN, ACCEPTED)
    fields = shared_fields(hf)
    experts = expert_fields(hf, "num_local_experts", 8, 2, None, fields["d_mlp"])
    return make_config(fields | experts | {"mlp_bias": False})


def moe_shared_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of GraniteMoE with shared experts. Raises CheckpointError or
    UnsupportedModel with the name of the key.
    """
    check_keys(hf, MOE_KNOWN | {"shared_intermediate_size"}, ACCEPTED)
    fields = shared_fields(hf)
    experts = expert_fields(hf, "num_local_experts", 8, 2, None, fields["d_mlp"])
    shared = integer(hf, "shared_intermediate_size", 0)
    return make_config(fields | experts | {"mlp_bias": False, "d_shared": shared or None})


def shared_fields(hf: dict) -> dict:
    """Return the fields that Granite's families have in common, without those about the MLP's bias."""
    fields = KEYS.read(hf)
    more = {
        "norm": "rmsnorm",
        "norm_bias": False,
        "positions": "rope",
        "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
        "mlp": choice(hf, "hidden_act", GATED_ACTIVATIONS, "silu"),
        "logit_multiplier": 1 / (real(hf, "logits_scaling", 1.0) or float("inf")),
    }
    return fields | whole_rope(hf) | biases(flag(hf, "attention_bias", False)) | more


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Granite config.json, the inverse of `to_config`."""
    return _told(c) | {"mlp_bias": c.mlp_bias}


def moe_hf(c: ModelConfig) -> dict:
    """Return the values of a GraniteMoE config.json, the inverse of `moe_config`."""
    return _told(c) | experts_told(c, "num_local_experts") | {"intermediate_size": c.d_expert}


def moe_shared_hf(c: ModelConfig) -> dict:
    """Return the values of a config.json with shared experts, the inverse of `moe_shared_config`."""
    return moe_hf(c) | {"shared_intermediate_size": c.d_shared or 0}


def _told(c: ModelConfig) -> dict:
    more = {
        "rope_parameters": rope_told(c),
        "num_key_value_heads": c.n_kv_head,
        "hidden_act": name_of(GATED_ACTIVATIONS, c.mlp),
        "attention_bias": c.q_bias,
        "logits_scaling": 1 / c.logit_multiplier,
    }
    multiplier = {"attention_multiplier": c.d_head**-0.5 if c.score_multiplier is None else c.score_multiplier}
    return told(c) | KEYS.told(c) | more | multiplier


_GATE_UP = Into(STACKED[:2], split_gate, join_gate)
MOE_NAMES = {theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs} | {
    "layers.{i}.block_sparse_moe.router.layer.weight": "blocks.{i}.mlp.router.weight",
    "layers.{i}.block_sparse_moe.input_linear.weight": _GATE_UP,
    "layers.{i}.block_sparse_moe.output_linear.weight": STACKED[2],
    # Names in memory since transformers 5.
    "layers.{i}.block_sparse_moe.router.weight": "blocks.{i}.mlp.router.weight",
    "layers.{i}.block_sparse_moe.experts.gate_up_proj": _GATE_UP,
    "layers.{i}.block_sparse_moe.experts.down_proj": STACKED[2],
}

MOE_SHARED_NAMES = MOE_NAMES | {
    "layers.{i}.shared_mlp.input_linear.weight": Into(
        ("blocks.{i}.mlp.shared.gate.weight", "blocks.{i}.mlp.shared.up.weight"), split_gate, join_gate
    ),
    "layers.{i}.shared_mlp.output_linear.weight": "blocks.{i}.mlp.shared.down.weight",
}

GRANITE = Family("Granite", to_config, Layout(llama.NAMES, prefix="model."), to_hf)
GRANITE_MOE = Family("GraniteMoE", moe_config, Layout(MOE_NAMES, prefix="model."), moe_hf)
GRANITE_MOE_SHARED = Family(
    "GraniteMoE with shared experts", moe_shared_config, Layout(MOE_SHARED_NAMES, prefix="model."), moe_shared_hf
)
