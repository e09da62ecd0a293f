"""dots.llm1 and GLM-4.5: dense layers first, then experts beside a shared one, chosen by sigmoids with an offset."""

from dataclasses import replace

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    Family,
    check_keys,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    mixers_told,
    optional,
    real,
)
from model.loading.families.experts import expert_fields, expert_names
from model.loading.families.keys import biases
from model.loading.families.rope import rope, rope_told

_EXPERTS = {"n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size", "norm_topk_prob"}
_EXPERTS |= {"first_k_dense_replace", "routed_scaling_factor", "num_local_experts"}
_EXPERTS |= neutral_keys.keys_of(neutral_keys.EXPERTS) | neutral_keys.keys_of(neutral_keys.DOTS)
DOTS_KNOWN = llama.COMMON | _EXPERTS | {"attention_bias", "sliding_window", "max_window_layers"}
GLM_KNOWN = llama.COMMON | _EXPERTS | {"attention_bias", "use_qk_norm"}
GLM_KNOWN |= {"num_nextn_predict_layers", "num_mtp_layers"}  # layers that predict further tokens; not read
# Experts are in one group; the scores are sigmoids.
ACCEPTED = {"n_group": (1,), "topk_group": (1,), "scoring_func": ("sigmoid", "noaux_tc"), "topk_method": ("noaux_tc",)}
ACCEPTED |= {"moe_layer_freq": (1,), "decoder_sparse_step": (1,)}


def dots1_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a dots.llm1 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, DOTS_KNOWN, ACCEPTED | {"partial_rotary_factor": (1.0,)})
    window, first = optional(hf, "sliding_window", 4096), integer(hf, "max_window_layers", 62)
    slides = [window is not None and layer >= first for layer in range(depth(hf))]
    kinds = layer_kinds(hf, ["sliding_attention" if each else "full_attention" for each in slides])
    fields = llama.swiglu_fields(hf, kv=32) | biases(flag(hf, "attention_bias", False)) | mixers(kinds, window)
    return make_config(fields | {"qk_norm": True} | _experts(hf, 0, False))


def glm4_moe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GLM-4.5 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, GLM_KNOWN, ACCEPTED)
    head = {"head_dim": integer(hf, "hidden_size") // max(integer(hf, "num_attention_heads"), 1)}
    fields = llama.swiglu_fields(head | hf, kv=8, eps=1e-5, rotary=rope(hf, default_fraction=0.5))
    more = biases(flag(hf, "attention_bias", False), "qkv") | {"qk_norm": flag(hf, "use_qk_norm", False)}
    return make_config(fields | more | llama.full(hf) | _experts(hf, 1, True))


def _experts(hf: dict, dense: int, divides: bool) -> dict:
    width = integer(hf, "moe_intermediate_size", 1408)
    count = "n_routed_experts" if hf.get("n_routed_experts") is not None else "num_local_experts"
    return expert_fields(hf, count, 128, 8, divides, width) | {
        "router_scores": "sigmoid",
        "router_offset": True,
        "expert_multiplier": real(hf, "routed_scaling_factor", 1.0),
        "d_shared": width * integer(hf, "n_shared_experts", 1),
        "dense": tuple(range(min(integer(hf, "first_k_dense_replace", dense), depth(hf)))),
    }


def dots1_hf(c: ModelConfig) -> dict:
    """Return the values of a dots.llm1 config.json, the inverse of `dots1_config`."""
    return llama.swiglu_told(c) | mixers_told(c) | _told(c) | {"attention_bias": c.q_bias}


def glm4_moe_hf(c: ModelConfig) -> dict:
    """Return the values of a GLM-4.5 config.json, the inverse of `glm4_moe_config`."""
    turns = rope_told(c) | {"partial_rotary_factor": c.rotary_fraction}
    more = {"attention_bias": c.q_bias, "use_qk_norm": c.qk_norm, "rope_parameters": turns, "num_mtp_layers": 0}
    return llama.swiglu_told(c) | _told(c) | more


def _told(c: ModelConfig) -> dict:
    return {
        "n_routed_experts": c.n_expert,
        "num_experts_per_tok": c.experts_per_token,
        "moe_intermediate_size": c.d_expert,
        "norm_topk_prob": c.divide_weights,
        "routed_scaling_factor": c.expert_multiplier,
        "n_shared_experts": (c.d_shared or 0) // c.d_expert,
        "first_k_dense_replace": len(c.dense),
    }


PARTS = ("gate_proj", "up_proj", "down_proj")
SHARED = {
    f"layers.{{i}}.mlp.shared_experts.{part}.weight": f"blocks.{{i}}.mlp.shared.{part.removesuffix('_proj')}.weight"
    for part in PARTS
}
NAMES = {
    **llama.NAMES,
    **llama.QK_NORMS,
    **expert_names(PARTS),
    **SHARED,
    "layers.{i}.mlp.gate.e_score_correction_bias": "blocks.{i}.mlp.offset",
}
_LAYOUT = Layout(NAMES, prefix="model.")


def _without_next(hf: dict) -> Layout:
    """Return the layout, without the layers after the last one, which predict further tokens."""
    return replace(_LAYOUT, beside=(f"model.layers.{depth(hf)}.",))


DOTS1 = Family("dots.llm1", dots1_config, _LAYOUT, dots1_hf)
GLM4_MOE = Family("GLM-4.5", glm4_moe_config, _LAYOUT, glm4_moe_hf, _without_next)
