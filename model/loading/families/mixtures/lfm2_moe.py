"""LFM2 with experts: gated short convolutions and attention as in LFM2, and experts after the first layers."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, depth, flag, integer, layer_kinds, mixers, name_of, real
from model.loading.families.experts import expert_fields, expert_names, experts_told
from model.loading.families.gated import lfm2
from model.loading.families.keys import renamed, whole_rope

KNOWN = llama.COMMON | {"norm_eps", "conv_bias", "conv_L_cache", "full_attn_idxs", "moe_intermediate_size"}
KNOWN |= {"num_experts", "num_experts_per_tok", "num_dense_layers", "use_expert_bias", "routed_scaling_factor"}
KNOWN |= {"norm_topk_prob"} | neutral_keys.keys_of(neutral_keys.LFM2) | neutral_keys.keys_of(neutral_keys.EXPERTS)


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an LFM2 config.json with experts. Raises CheckpointError or UnsupportedModel with the
    name of the key.
    """
    hf = renamed(hf, {"tie_embedding": "tie_word_embeddings"})
    check_keys(hf, KNOWN, {"conv_dim": (hf.get("hidden_size"),), "hidden_act": ("silu",)})
    kinds = layer_kinds(hf, ["full_attention"] * depth(hf), names=lfm2.KINDS)
    given = {**hf, "rms_norm_eps": hf.get("norm_eps")}
    more = {
        "qk_norm": True,
        "d_conv": integer(hf, "conv_L_cache", 3),
        "short_conv_bias": flag(hf, "conv_bias", False),
        "router_scores": "sigmoid",
        "divide_eps": 1e-6,
        "router_offset": flag(hf, "use_expert_bias", True),
        "expert_multiplier": real(hf, "routed_scaling_factor", 1.0),
        "dense": tuple(range(min(integer(hf, "num_dense_layers", 2), depth(hf)))),
    }
    return make_config(
        llama.swiglu_fields(given, kv=8, eps=1e-5, tied=True, rotary=whole_rope(hf, 1_000_000.0))
        | mixers(kinds, None, names=lfm2.KINDS)
        | expert_fields(hf, "num_experts", 32, 4, True, integer(hf, "moe_intermediate_size", 1792))
        | more
    )


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an LFM2 config.json with experts, the inverse of `to_config`."""
    values = llama.swiglu_told(c)
    values["norm_eps"] = values.pop("rms_norm_eps")
    return (
        values
        | experts_told(c, "num_experts")
        | {
            "conv_bias": c.short_conv_bias,
            "conv_L_cache": c.d_conv,
            "layer_types": [name_of(lfm2.KINDS, name) for name in c.mixers],
            "moe_intermediate_size": c.d_expert,
            "norm_topk_prob": c.divide_weights,
            "num_dense_layers": len(c.dense),
            "use_expert_bias": c.router_offset,
            "routed_scaling_factor": c.expert_multiplier,
        }
    )


NAMES = lfm2.NAMES | {
    name.replace(".mlp.", ".feed_forward."): ours for name, ours in expert_names(("w1", "w3", "w2")).items()
}
NAMES |= {"layers.{i}.feed_forward.expert_bias": "blocks.{i}.mlp.offset"}

LFM2_MOE = Family("LFM2 with experts", to_config, Layout(NAMES, prefix="model."), to_hf)
