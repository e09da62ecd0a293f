"""Nemotron-H: Mamba 2, a few layers of attention without positions, and MLPs with the square of ReLU.

Its files count every mixer and every MLP as a layer. Here a layer is a mixer with the MLP that follows it, if one does:
"M-M*-" is three layers, and the second has no MLP.
"""

import itertools

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, Names, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, real, sizes
from model.loading.families.experts import expert_fields
from model.loading.families.keys import biases
from model.loading.families.others.ssm import limits, mixer_names

SIZES = {"vocab_size": "vocab_size", "hidden_size": "d_model", "num_attention_heads": "n_head"}
KNOWN = {
    *SIZES,
    *("hybrid_override_pattern", "layers_block_type", "layer_types", "num_hidden_layers", "num_key_value_heads"),
    *("head_dim", "attention_head_dim", "max_position_embeddings", "intermediate_size"),
    *("mlp_hidden_act", "mlp_bias", "ssm_state_size", "mamba_num_heads", "mamba_head_dim", "n_groups", "conv_kernel"),
    *("n_routed_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size"),
    *("num_experts_per_tok", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob"),
    *("use_conv_bias", "use_bias", "layer_norm_epsilon", "time_step_min", "tie_word_embeddings"),
    *neutral_keys.keys_of(neutral_keys.NEMOTRON_H),
}
ACCEPTED = {"mamba_hidden_act": ("silu", "swish"), "mamba_proj_bias": (False,), "num_nextn_predict_layers": (0,)} | {
    "attention_bias": (False,),  # transformers does not read it
}
SIGNS = {"M": "mamba2", "*": "softmax", "-": "mlp", "E": "experts"}
MIXERS = ("mamba2", "softmax")
KINDS = {
    "mamba": "mamba2",
    "linear_attention": "mamba2",
    "attention": "softmax",
    "full_attention": "softmax",
    "mlp": "mlp",
    "moe": "experts",
}


def sublayers(hf: dict) -> tuple[str, ...]:
    """Return the kind of each of the file's layers: "mamba2", "softmax", "mlp" or "experts". Raises CheckpointError
    for a list of another form, and UnsupportedModel for other kinds, and for an MLP that does not follow a mixer.
    """
    listed = hf.get("layers_block_type") or hf.get("layer_types")
    key = "hybrid_override_pattern" if listed is None else "layers_block_type"
    given, table = (hf.get(key), SIGNS) if listed is None else (listed, KINDS)
    if not isinstance(given, (str if listed is None else list)) or not given:
        raise CheckpointError("The config lacks a key.", key, "Fetch the checkpoint again.")
    kinds = tuple(table.get(each, "") if isinstance(each, str) else "" for each in given)
    what = "The model uses a feature that is not supported."
    if "" in kinds:
        got = f"{key}: {given[kinds.index('')]!r}"[:80]
        raise UnsupportedModel(what, got, say("Supported: {}.", ", ".join(table)))
    if any(kind not in MIXERS and before not in MIXERS for before, kind in itertools.pairwise(("", *kinds))):
        raise UnsupportedModel(what, f"{key}: an MLP that follows no mixer", "Supported: an MLP after a mixer.")
    return kinds


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Nemotron-H config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields, kinds = sizes(hf, SIZES), sublayers(hf)
    mixers = tuple(kind for kind in kinds if kind in MIXERS)
    followed = [after for kind, after in zip(kinds, (*kinds[1:], ""), strict=True) if kind in MIXERS]
    width = integer(hf, "attention_head_dim", 128) if hf.get("head_dim") is None else integer(hf, "head_dim")
    return make_config(
        fields
        | biases(False)
        | (_experts(hf, followed) if "experts" in kinds else {})
        | limits({"time_step_limit": [hf.get("time_step_min", 0.001), {"__float__": "Infinity"}]})
        | {
            "n_layer": len(mixers),
            "n_ctx": integer(hf, "max_position_embeddings", 4096),
            "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
            "d_head": width,
            "mixer": mixers,
            "without_mlp": tuple(layer for layer, after in enumerate(followed) if after in ("", *MIXERS)),
            "d_mlp": integer(hf, "intermediate_size", 21504),
            "mlp": choice(hf, "mlp_hidden_act", ACTIVATIONS | {"relu2": "relu2", "silu": "silu"}, "relu2"),
            "mlp_bias": flag(hf, "mlp_bias", False),
            "norm": "rmsnorm",
            "norm_bias": False,
            "norm_eps": real(hf, "layer_norm_epsilon", 1e-5),
            "positions": "none",
            "d_state": integer(hf, "ssm_state_size", 128),
            "d_conv": integer(hf, "conv_kernel", 4),
            "ssm_heads": integer(hf, "mamba_num_heads", 128),
            "d_ssm_head": integer(hf, "mamba_head_dim", 64),
            "ssm_groups": integer(hf, "n_groups", 8),
            "ssm_bias": flag(hf, "use_bias", False),
            "ssm_conv_bias": flag(hf, "use_conv_bias", True),
            "tie_embeddings": flag(hf, "tie_word_embeddings", False),
        }
    )


def _experts(hf: dict, followed: list[str]) -> dict:
    """Return the fields about experts; `followed` says what follows each mixer."""
    one = {"n_group": (1,), "topk_group": (1,), "moe_latent_size": ()}
    check_keys({key: hf.get(key) for key in one}, (), one)
    return expert_fields(hf, "n_routed_experts", 8, 2, True, integer(hf, "moe_intermediate_size", 7688)) | {
        "router_scores": "sigmoid",
        "router_offset": True,
        "expert_multiplier": real(hf, "routed_scaling_factor", 1.0),
        "d_shared": integer(hf, "moe_shared_expert_intermediate_size", 7688),
        "expert_bias": False,
        "dense": tuple(layer for layer, after in enumerate(followed) if after == "mlp"),
    }


NAMES: Names = {
    "embeddings.weight": "embed.weight",
    "norm_f.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
    **mixer_names("layers.{i}.mixer"),
    **{
        f"layers.{{i}}.mixer.{theirs}_proj.{kind}": f"blocks.{{i}}.{ours}.{kind}"
        for theirs, ours in (*((part, f"attn.{part}") for part in "qkvo"), ("up", "mlp.up"), ("down", "mlp.down"))
        for kind in ("weight", "bias")
    },
    "layers.{i}.mixer.gate.weight": "blocks.{i}.mlp.router.weight",
    "layers.{i}.mixer.gate.e_score_correction_bias": "blocks.{i}.mlp.offset",
    **{
        name: to
        for part in ("up", "down")
        for name, to in (
            (f"layers.{{i}}.mixer.experts.{{e}}.{part}_proj.weight", f"blocks.{{i}}.mlp.experts.{part}.weight"),
            (f"layers.{{i}}.mixer.experts.{part}_proj", f"blocks.{{i}}.mlp.experts.{part}.weight"),  # in memory
            (f"layers.{{i}}.mixer.shared_experts.{part}_proj.weight", f"blocks.{{i}}.mlp.shared.{part}.weight"),
            (f"layers.{{i}}.mixer.shared_experts.{part}_proj.bias", f"blocks.{{i}}.mlp.shared.{part}.bias"),
        )
    },
}


def layout_of(hf: dict) -> Layout:
    """Return the names of the weights, which count mixers and MLPs as layers. Newer files begin with "model."."""
    names, places, ours = dict(NAMES), {}, -1
    for theirs, kind in enumerate(sublayers(hf)):
        ours += kind in MIXERS
        places[str(theirs)] = str(ours)
        names[f"layers.{theirs}.norm.weight"] = f"blocks.{ours}.{'norm1' if kind in MIXERS else 'norm2'}.weight"
    return Layout(names | {f"model.{name}": rule for name, rule in names.items()}, "backbone.", places=places)


NEMOTRON_H = Family("Nemotron-H", to_config, Layout(NAMES, prefix="backbone."), layout_of=layout_of)
