"""OLMo: LayerNorm without weights; OLMo 2 and 3: RMSNorm after the sublayers and of q and k; OLMoE: with experts."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
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
    real,
)
from model.loading.families.experts import expert_fields, expert_names, experts_told
from model.loading.families.rope import rope_by_kind, rope_told_by_kind

KNOWN = (llama.COMMON - {"head_dim"}) | {"attention_bias"}
THETA3 = 500_000.0


def _biases(hf: dict) -> dict:
    bias = flag(hf, "attention_bias", False)
    return {f"{name}_bias": bias for name in "qkvo"}


def olmo_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an OLMo config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, (KNOWN - {"rms_norm_eps"}) | {"clip_qkv"}, {})
    limit = None if hf.get("clip_qkv") is None else real(hf, "clip_qkv")
    norm = {"norm": "layernorm", "norm_weight": False, "norm_eps": 1e-5, "qkv_limit": limit}
    return make_config(llama.swiglu_fields(hf) | _biases(hf) | norm | llama.full(hf))


def olmo2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an OLMo 2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    return make_config(llama.swiglu_fields(hf, eps=1e-5) | _biases(hf) | _OUTPUT | llama.full(hf))


_QK = {"qk_norm": True, "qk_norm_over": "all"}
_OUTPUT = {"norm_placement": "output", **_QK}


def olmo3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an OLMo 3 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | {"sliding_window"}, {})
    kinds = ["sliding_attention" if (layer + 1) % 4 else "full_attention" for layer in range(depth(hf))]
    windows = mixers(layer_kinds(hf, kinds), optional(hf, "sliding_window", 4096))
    # Of an older file, transformers reads rope_theta for the layers with full attention alone.
    fields = llama.swiglu_fields(hf, eps=1e-5, rotary=rope_by_kind(hf, THETA3, THETA3))
    return make_config(fields | _biases(hf) | _OUTPUT | windows)


def olmoe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an OLMoE config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    known = KNOWN | {"num_experts", "num_experts_per_tok", "norm_topk_prob"}
    # Its code would clamp q and k after their norms, ours before.
    check_keys(hf, known | neutral_keys.keys_of(neutral_keys.EXPERTS), {"clip_qkv": (None,)})
    fields = llama.swiglu_fields(hf, eps=1e-5) | _biases(hf) | _QK | llama.full(hf)
    return make_config(fields | expert_fields(hf, "num_experts", 64, 8, False, fields["d_mlp"]))


# --- and back ---


def _told(c: ModelConfig) -> dict:
    values = llama.swiglu_told(c) | {"attention_bias": c.q_bias}
    if c.d_head * c.n_head == c.d_model:  # it is always derived
        del values["head_dim"]
    return values


def olmo_hf(c: ModelConfig) -> dict:
    """Return the values of an OLMo config.json, the inverse of `olmo_config`."""
    return {name: value for name, value in _told(c).items() if name != "rms_norm_eps"} | {"clip_qkv": c.qkv_limit}


def olmo3_hf(c: ModelConfig) -> dict:
    """Return the values of an OLMo 3 config.json, the inverse of `olmo3_config`."""
    return _told(c) | mixers_told(c) | {"rope_parameters": rope_told_by_kind(c)}


def olmoe_hf(c: ModelConfig) -> dict:
    """Return the values of an OLMoE config.json, the inverse of `olmoe_config`."""
    more = {"norm_topk_prob": c.divide_weights, "intermediate_size": c.d_expert}
    return _told(c) | experts_told(c, "num_experts") | more


# --- names ---

OLMO_NAMES = {theirs: ours for theirs, ours in llama.NAMES.items() if "norm" not in theirs}
OLMO2_NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if "layernorm" not in theirs},
    **llama.QK_NORMS,
    "layers.{i}.post_attention_layernorm.weight": "blocks.{i}.after1.weight",
    "layers.{i}.post_feedforward_layernorm.weight": "blocks.{i}.after2.weight",
}
OLMOE_NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs},
    **llama.QK_NORMS,
    **expert_names(("gate_proj", "up_proj", "down_proj")),
}

OLMO = Family("OLMo", olmo_config, Layout(OLMO_NAMES, prefix="model."), olmo_hf)
OLMO2 = Family("OLMo 2", olmo2_config, Layout(OLMO2_NAMES, prefix="model."), _told)
OLMO3 = Family("OLMo 3", olmo3_config, Layout(OLMO2_NAMES, prefix="model."), olmo3_hf)
OLMOE = Family("OLMoE", olmoe_config, Layout(OLMOE_NAMES, prefix="model."), olmoe_hf)
