"""Configs of families with Mamba 2 layers: published shapes, which layer is what, and what is refused by name."""

import pytest

from model.anatomy.anatomy import n_params
from model.errors import CheckpointError, UnsupportedModel
from model.loading.convert import expected_shapes, plan
from model.loading.families import FAMILIES

NEMOTRON = {"head_dim": 128, "n_groups": 8, "ssm_state_size": 128, "vocab_size": 131_072, "num_key_value_heads": 8}
NEMOTRON |= {"hidden_size": 4096, "num_attention_heads": 32, "mamba_num_heads": 128, "mamba_head_dim": 64}
EIGHT = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
NANO = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
NANO3 = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
CODESTRAL = {"vocab_size": 32_768, "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64}
EXPERTS = {"n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "n_group": 1}
EXPERTS |= {"moe_shared_expert_intermediate_size": 3712, "routed_scaling_factor": 2.5, "topk_group": 1}
# name: (family, config, layers, parameters as the model card rounds them)
PUBLISHED = {
    "Mamba-Codestral-7B": ("mamba2", CODESTRAL | {"n_groups": 8, "state_size": 128}, 64, 7.3e9),
    "Nemotron-H-8B": (
        "nemotron_h",
        NEMOTRON | {"hybrid_override_pattern": EIGHT, "intermediate_size": 21_504},
        28,
        8.1e9,
    ),
    "Nemotron-Nano-9B-v2": (
        "nemotron_h",
        NEMOTRON
        | {"hybrid_override_pattern": NANO, "intermediate_size": 15_680, "hidden_size": 4480, "mamba_head_dim": 80}
        | {"num_attention_heads": 40},
        31,
        8.9e9,
    ),
    "Nemotron-3-Nano-30B-A3B": (
        "nemotron_h",
        NEMOTRON
        | EXPERTS
        | {"hybrid_override_pattern": NANO3, "hidden_size": 2688, "mamba_num_heads": 64, "num_key_value_heads": 2},
        29,
        31.6e9,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_shapes_have_their_parameters(name):
    family, values, layers, total = PUBLISHED[name]
    config = FAMILIES[family].to_config(values)
    assert config.n_layer == layers and n_params(config) == pytest.approx(total, rel=0.005)


def test_a_layer_of_nemotron_h_is_a_mixer_and_what_follows_it():
    values = NEMOTRON | EXPERTS | {"hybrid_override_pattern": "M-*EMM"}
    family = FAMILIES["nemotron_h"]
    config, layout = family.to_config(values), family.layout_for(values)
    assert config.mixers == ("mamba2", "softmax", "mamba2", "mamba2") and config.without_mlp == (2, 3)
    assert config.dense == (0,) and [config.has_experts(layer) for layer in range(4)] == [False, True, False, False]
    listed = ["linear_attention", "mlp", "full_attention", "moe", "linear_attention", "linear_attention"]
    newer = {name: value for name, value in values.items() if name != "hybrid_override_pattern"}
    assert family.to_config(newer | {"layers_block_type": listed}) == config
    names = ["backbone.layers.1.norm.weight", "backbone.layers.3.mixer.experts.7.up_proj.weight"]
    shapes = {name: shape for name, shape in expected_shapes(config).items() if name == "blocks.0.norm2.weight"}
    assert plan(names[:1], layout, config, shapes)[names[0]].names == ("blocks.0.norm2.weight",)
    up = "blocks.1.mlp.experts.up.weight"
    with pytest.raises(CheckpointError, match="lacks weights"):  # of the other experts
        plan(names[1:], layout, config, {up: expected_shapes(config)[up]})


@pytest.mark.parametrize(
    ("family", "changes", "error", "got"),
    [
        ("nemotron_h", {"hybrid_override_pattern": "MX"}, UnsupportedModel, "hybrid_override_pattern: 'X'"),
        ("nemotron_h", {"hybrid_override_pattern": "-M"}, UnsupportedModel, "an MLP that follows no mixer"),
        ("nemotron_h", {"hybrid_override_pattern": "M-E"}, UnsupportedModel, "an MLP that follows no mixer"),
        ("nemotron_h", {"hybrid_override_pattern": ["M"]}, CheckpointError, "hybrid_override_pattern"),
        ("nemotron_h", {"layers_block_type": ["mamba", 7]}, UnsupportedModel, "layers_block_type: 7"),
        ("nemotron_h", {"hybrid_override_pattern": "ME", "n_group": 2}, UnsupportedModel, "n_group = 2"),
        ("nemotron_h", {"hybrid_override_pattern": "ME", "moe_latent_size": 64}, UnsupportedModel, "moe_latent_size"),
        ("mamba2", {"num_heads": 100}, UnsupportedModel, "num_heads x head_dim"),
        ("mamba2", {"time_step_limit": [0.1]}, CheckpointError, r"time_step_limit = \[0.1\]"),
        ("falcon_h1", {"mlp_multipliers": [1.0]}, CheckpointError, "mlp_multipliers"),
        ("falcon_h1", {"key_multiplier": "a"}, CheckpointError, "key_multiplier"),
        ("bamba", {"attn_layer_indices": "1"}, CheckpointError, "attn_layer_indices"),
        ("granitemoehybrid", {"layer_types": ["mamba"]}, CheckpointError, "layer_types"),
        ("granitemoehybrid", {"position_embedding_type": "alibi"}, UnsupportedModel, "position_embedding_type"),
    ],
)
def test_what_is_not_known_is_refused_by_name(family, changes, error, got):
    import transformers

    if family == "nemotron_h":
        values = NEMOTRON | EXPERTS
    elif family == "mamba2":
        values = CODESTRAL
    else:
        values = transformers.AutoConfig.for_model(family).to_dict()
        values = {name: each for name, each in values.items() if not name.startswith("_") and name != "time_step_limit"}
    with pytest.raises(error, match=got):
        FAMILIES[family].to_config(values | changes)
