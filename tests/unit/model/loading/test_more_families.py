"""Config keys of more families: used, known not to matter, or refused by name; defaults are those of transformers."""

import json

import pytest

from model.errors import CheckpointError, UnsupportedModel
from model.loading.convert import MAX_LAYERS
from tests.support.models.family_configs import GEMMA4, read
from tests.support.models.more_configs import MORE_CONFIGS, WIDTH

EACH = pytest.mark.parametrize("family", MORE_CONFIGS)


def width_of(family: str) -> str:
    return next(key for key in MORE_CONFIGS[family] if key in WIDTH)


@EACH
def test_an_unknown_key_is_refused_by_name(family):
    with pytest.raises(CheckpointError, match="logit_softcapping"):
        read(MORE_CONFIGS[family] | {"logit_softcapping": 30.0})


@EACH
def test_a_missing_size_is_named(family):
    values = {key: value for key, value in MORE_CONFIGS[family].items() if key != width_of(family)}
    name = "hidden_size" if family == "bloom" else width_of(family)  # whose files say n_embed
    with pytest.raises(CheckpointError, match=f"lacks a key.*{name}"):
        read(values)


@pytest.mark.parametrize("value", ["8", 8.5, True, None, -8, 0, [8]], ids=repr)
@EACH
def test_a_size_that_is_no_size_is_refused(family, value):
    with pytest.raises((CheckpointError, UnsupportedModel)):
        read(MORE_CONFIGS[family] | {width_of(family): value})


@EACH
def test_defaults_are_those_of_transformers(family):
    """A config of sizes alone means what transformers writes for it."""
    import transformers

    sizes = {"vocab_size", "hidden_size", "intermediate_size", "ffn_dim", "d_model", "n_embd"}
    sizes |= {"num_hidden_layers", "num_attention_heads", "num_layers", "num_heads", "n_layer", "n_head"}
    sizes |= {"n_layers", "n_heads", "num_key_value_heads", "rotary_dim", "attention_types"}
    given = {key: value for key, value in MORE_CONFIGS[family].items() if key in sizes}
    if family == "bloom":
        given |= {"hidden_size": 16, "n_head": 4}
    if family in ("glm", "glm4", "gpt_oss", "stablelm"):
        given["num_attention_heads"] = 32
        given["hidden_size"] = 512
    if family == "starcoder2":
        given.pop("num_key_value_heads")  # 2, whatever the number of heads
    told = json.loads(transformers.AutoConfig.for_model(family, **given).to_json_string(use_diff=False))
    del told["model_type"]
    assert read(given | {"model_type": family}) == read(told | {"model_type": family})


REFUSED = [
    ("nanochat", "hidden_act", "silu"),
    ("nanochat", "partial_rotary_factor", 0.5),
    ("gpt_oss", "swiglu_limit", 6.0),
    ("gpt_oss", "swiglu_alpha", 1.0),
    ("gpt_oss", "hidden_act", "gelu"),
    ("gpt_oss", "layer_types", ["sliding_attention", "chunked_attention"]),
    ("phi", "hidden_act", "silu"),
    ("granite", "hidden_act", "relu"),
    ("gptj", "scale_attn_weights", False),
    ("gptj", "rotary", False),
    ("gptj", "rope_scaling", {"rope_type": "linear"}),
    ("codegen", "activation_function", "swish"),
    ("gpt_neo", "attention_types", [[["global", "linear"], 1]]),
    ("opt", "learned_embeddings", False),
    ("opt", "activation_function", "swish"),
    ("bloom", "apply_residual_connection_post_layernorm", True),
    ("starcoder2", "norm_type", "rms_norm"),
    ("starcoder2", "mlp_type", "gated"),
    ("gpt_bigcode", "activation_function", "swish"),
    ("gpt_bigcode", "add_cross_attention", True),
    ("falcon", "num_ln_in_parallel_attn", 2),
    ("mpt", "expansion_ratio", 3),
    ("mpt", "no_bias", False),
    ("mpt", "norm_type", "rmsnorm"),
    ("cohere2", "head_dim", 8),
    ("cohere2", "use_parallel_block", False),
    ("cohere2", "rotary_pct", 0.5),
    ("glm", "hidden_act", "relu"),
    ("openai-gpt", "afn", "tanh"),
]


@pytest.mark.parametrize(("family", "key", "value"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_what_is_not_computed_is_refused_by_name(family, key, value):
    values = {name: each for name, each in MORE_CONFIGS[family].items() if name != "attention_layers"}
    with pytest.raises(UnsupportedModel, match=key):
        read(values | {key: value})


@pytest.mark.parametrize("key", ["qk_ln", "prefix_lm", "attn_uses_sequence_id"])
def test_attention_of_mpt_that_is_not_computed_is_refused_by_name(key):
    with pytest.raises(UnsupportedModel, match=key):
        read(MORE_CONFIGS["mpt"] | {"attn_config": {key: True}})
    with pytest.raises(UnsupportedModel, match="alibi"):
        read(MORE_CONFIGS["mpt"] | {"attn_config": {"alibi": False}})
    with pytest.raises(CheckpointError, match=r"unknown keys.*rope"):
        read(MORE_CONFIGS["mpt"] | {"attn_config": {"rope": True}})
    with pytest.raises(CheckpointError, match="attn_config"):
        read(MORE_CONFIGS["mpt"] | {"attn_config": [1]})


@pytest.mark.parametrize("family", ["gpt_oss", "granitemoe"])
def test_one_expert_per_token_is_refused(family):
    """Its weight would be 1, where the forward pass has the router's probability."""
    values = {key: value for key, value in MORE_CONFIGS[family].items() if key != "experts_per_token"}
    with pytest.raises(UnsupportedModel, match="num_experts_per_tok = 1"):
        read(values | {"num_experts_per_tok": 1})


@pytest.mark.parametrize(
    ("family", "more", "match"),
    [
        ("bloom", {"hidden_size": 8}, "hidden_size: 8 and 16"),
        ("gptj", {"hidden_size": 8}, "n_embd: 16 and 8"),
        ("gpt_oss", {"num_experts": 7}, "num_local_experts: 3 and 7"),
        ("openai-gpt", {"n_ctx": 17}, "n_ctx 17"),
        ("gpt_neo", {"attention_layers": ["global", "global"]}, "attention_types"),
        ("gpt_neo", {"attention_types": [[["global"], 10**12]]}, "attention_types"),
        ("gpt_neo", {"attention_types": 5}, "attention_types"),
        ("codegen", {"n_head": 2}, "n_head 2"),
        ("gptj", {"rotary_dim": 6}, "6 rotated dimensions"),
        ("gptj", {"rotary_dim": 3}, "even"),
        ("granite", {"logits_scaling": 0}, "logit_multiplier"),
        ("cohere2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("gpt_oss", {"num_hidden_layers": 10**9, "layer_types": None}, "implausible"),
        ("cohere2", {"num_hidden_layers": MAX_LAYERS + 1}, "implausible"),
    ],
)
def test_values_that_contradict_or_make_no_sense_are_refused(family, more, match):
    with pytest.raises(CheckpointError, match=match):
        read(MORE_CONFIGS[family] | more)


def test_switches_of_families_reach_the_forward_pass():
    assert read(MORE_CONFIGS["nanochat"] | {"final_logit_softcapping": None}).logit_cap is None
    opt = MORE_CONFIGS["opt"]
    after = read(opt | {"do_layer_norm_before": False})
    assert (after.norm_placement, after.final_norm) == ("post", False)
    assert read(opt | {"_remove_final_layer_norm": True}).final_norm is False
    assert read(opt | {"enable_bias": False}).q_bias is False
    assert read(opt).tie_embeddings and not read(opt | {"word_embed_proj_dim": 8}).tie_embeddings  # two products
    bigcode = MORE_CONFIGS["gpt_bigcode"]
    assert read(bigcode).n_kv_head == 1 and read(bigcode | {"multi_query": False}).n_kv_head == 4
    assert read(bigcode | {"scale_attn_weights": False}).score_multiplier == 1.0
    falcon = MORE_CONFIGS["falcon"] | {"new_decoder_architecture": True, "num_kv_heads": 2}
    assert read(falcon).n_kv_head == 2 and not read(falcon).shared_norm
    assert read(falcon | {"num_ln_in_parallel_attn": 1}).shared_norm
    alibi = read(MORE_CONFIGS["falcon"] | {"alibi": True})
    assert (alibi.positions, alibi.alibi_rounded) == ("alibi", True)
    for family, key in (("cohere", "use_qk_norm"), ("stablelm", "qk_layernorm")):
        own = read(MORE_CONFIGS[family] | {key: True})
        assert (own.qk_norm, own.qk_norm_over, own.qk_norm_kind) == (True, "each", "layernorm")
    seven = read(MORE_CONFIGS["cohere2"])
    assert (seven.mixers, seven.unrotated) == (("sliding_window", "softmax"), (1,))
    assert read(MORE_CONFIGS["starcoder2"] | {"sliding_window": None}).mixer == "softmax"
    clipped = read(MORE_CONFIGS["mpt"] | {"attn_config": {"clip_qkv": 6, "softmax_scale": 0.1}})
    assert (clipped.qkv_limit, clipped.score_multiplier) == (6.0, 0.1)
    assert read(MORE_CONFIGS["gptj"]).d_rotary == 4 and read(MORE_CONFIGS["glm4"]).norm_placement == "sandwich"


LONGROPE = {"type": "longrope", "original_max_position_embeddings": 8, "short_mscale": 1.2, "long_mscale": 1.3}
LONGROPE |= {"short_factor": [1.0, 1.5], "long_factor": [1.0, 2.0]}
NOT_READ = [
    ("apertus", "hidden_act", "silu"),
    ("apertus", "post_norm", True),
    ("phimoe", "num_experts_per_tok", 3),
]


@pytest.mark.parametrize(("family", "key", "value"), NOT_READ)
def test_what_a_family_does_not_compute_is_refused_by_name(family, key, value):
    with pytest.raises(UnsupportedModel, match=key):
        read(MORE_CONFIGS[family] | {key: value})


def test_experts_of_gemma4_stand_beside_its_mlp():
    given = {"enable_moe_block": True, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 5}
    config = read(GEMMA4 | given)
    assert (config.n_expert, config.experts_per_token, config.d_expert, config.d_shared) == (3, 2, 5, config.d_mlp)
    assert config.expert_norms and config.expert_scales and config.divide_weights and not config.dense
    dense = read(GEMMA4 | given | {"enable_moe_block": False})
    assert dense == read(GEMMA4) and not dense.expert_norms and dense.d_shared is None


def test_both_scales_of_phimoe_are_the_amplitude():
    config = read(MORE_CONFIGS["phimoe"] | {"rope_scaling": LONGROPE | {"long_mscale": 1.2}})
    assert config.rope_scaling.amplitude == 1.2 and config.rope_scaling.long_factors == (1.0, 2.0)
    windows = [read(MORE_CONFIGS["phimoe"] | {"sliding_window": n}).window for n in (None, 16, 15)]
    assert windows == [None, None, 15]  # the context has 16 tokens
    with pytest.raises(UnsupportedModel, match=r"long_mscale = 1\.3"):
        read(MORE_CONFIGS["phimoe"] | {"rope_scaling": LONGROPE})
    assert (config.router_scores, config.router_jitter, config.divide_weights) == ("sparsemixer", 0.01, False)
