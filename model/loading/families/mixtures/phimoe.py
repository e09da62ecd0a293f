"""Phi-3.5-MoE and Phi-mini-MoE: experts chosen by SparseMixer, LayerNorm with biases, and biases of q, k, v, o and the
head.

LongRoPE has a factor on cosines and sines for short and for long texts; published models have the same for both. The
long factors apply to texts beyond the first training's length, as in the published code; transformers 5.23 keeps the
short ones there.
"""

from collections.abc import Mapping

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, flag, optional, real
from model.loading.families.experts import expert_fields, expert_names, experts_told
from model.loading.families.keys import biases, whole_rope
from model.loading.families.mistral import MIXTRAL_KEYS

_KNOWN = MIXTRAL_KEYS | {"attention_bias", "lm_head_bias", "router_jitter_noise"}
_KNOWN |= neutral_keys.keys_of(neutral_keys.PHIMOE)
_SCALES = ("short_mscale", "long_mscale")


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a PhiMoE config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, _KNOWN, {"num_experts_per_tok": (2,)})
    hf = {"max_position_embeddings": 131_072, **hf}
    given = {key: _scaled(value) if isinstance(value, Mapping) else value for key, value in hf.items()}
    fields = llama.swiglu_fields(given, kv=8, eps=1e-5, rotary=whole_rope(given, 1_000_000.0))
    experts = expert_fields(hf | {"norm_topk_prob": False}, "num_local_experts", 16, 2, False, fields["d_mlp"])
    more = {
        "norm": "layernorm",
        "norm_bias": True,
        "head_bias": flag(hf, "lm_head_bias", False),
        "router_scores": "sparsemixer",
        "router_jitter": real(hf, "router_jitter_noise", 0.01),
    }
    window = optional(hf, "sliding_window", None)
    near = None if window is None or window >= fields["n_ctx"] else window  # as long as the context, it hides nothing
    return make_config(fields | experts | llama.windowed(hf, near) | biases(flag(hf, "attention_bias", False)) | more)


def _scaled(rope: Mapping) -> dict:
    """Return the object with one factor on cosines and sines. Raises UnsupportedModel for two that differ."""
    told = {key: value for key, value in rope.items() if key not in _SCALES}
    if all(rope.get(key) is None for key in _SCALES):
        return told
    short = real(rope, "short_mscale")
    check_keys({"long_mscale": rope.get("long_mscale", short)}, (), {"long_mscale": (short,)})
    return {**told, "attention_factor": short}


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a PhiMoE config.json, the inverse of `to_config`."""
    values = llama.swiglu_told(c) | experts_told(c, "num_local_experts")
    rope = dict(values["rope_parameters"])
    if (scale := rope.pop("attention_factor", None)) is not None:
        rope |= dict.fromkeys(_SCALES, scale)
    return values | {
        "rope_parameters": rope,
        "intermediate_size": c.d_expert,
        "attention_bias": c.q_bias,
        "lm_head_bias": c.head_bias,
        "router_jitter_noise": c.router_jitter,
        "sliding_window": c.window if "sliding_window" in c.mixers else None,
    }


_NORMS = {"input_layernorm": "norm1", "post_attention_layernorm": "norm2"}
NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs},
    **{f"layers.{{i}}.{theirs}.bias": f"blocks.{{i}}.{ours}.bias" for theirs, ours in _NORMS.items()},
    **both("norm", "final_norm"),
    **both("lm_head", "unembed"),
    **expert_names(("w1", "w3", "w2"), "layers.{i}.block_sparse_moe"),
    "layers.{i}.mlp.router.weight": "blocks.{i}.mlp.router.weight",  # in memory
}

PHIMOE = Family("PhiMoE", to_config, Layout(NAMES, prefix="model."), to_hf)
