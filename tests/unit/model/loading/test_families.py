"""Config keys of every family are used, known not to matter, or refused by name."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.rope_scaling import RopeScaling
from model.loading.architectures import ARCHITECTURES
from model.loading.checkpoint import MAX_CONFIG_BYTES, load_folder, read_config
from model.loading.convert import _rule
from model.loading.families import FAMILIES, family_of
from model.loading.refused import MISSING, missing_in_gguf
from tests.support.models.family_configs import (
    A_SIZE,
    CONFIGS,
    GEMMA,
    GEMMA2,
    GEMMA3,
    GEMMA4,
    GPT2,
    LLAMA,
    MISTRAL,
    MIXTRAL,
    NEOX,
    OLMO,
    OLMO3,
    OLMOE,
    PHI3,
    QWEN2,
    QWEN2_MOE,
    QWEN3,
    QWEN3_MOE,
    SMOLLM3,
    read,
)
from viz.words import translate

# --- config ----------------------------------------------------------------------------------------


def test_the_facts_of_each_family():
    llama, gpt2, qwen2, qwen3, neox = (read(CONFIGS[name]) for name in ("llama", "gpt2", "qwen2", "qwen3", "gpt_neox"))
    assert (llama.norm, llama.mlp, llama.n_kv_head, llama.rope_theta, llama.tie_embeddings, llama.norm_eps) == (
        "rmsnorm",
        "swiglu",
        1,
        100_000.0,
        True,
        1e-5,
    )
    assert not (llama.q_bias or llama.o_bias or llama.mlp_bias or llama.qk_norm)
    assert (gpt2.positions, gpt2.mlp, gpt2.d_mlp, gpt2.tie_embeddings, gpt2.n_kv_head) == (
        "learned",
        "gelu_tanh",
        32,
        True,
        2,
    )
    assert (qwen2.q_bias, qwen2.k_bias, qwen2.v_bias, qwen2.o_bias, qwen2.qk_norm) == (True, True, True, False, False)
    assert (qwen3.q_bias, qwen3.o_bias, qwen3.qk_norm, qwen3.d_head) == (False, False, True, 6)
    assert read({key: value for key, value in QWEN3.items() if key != "head_dim"}).d_head == 128
    assert (neox.parallel_residual, neox.d_rotary, neox.mlp, neox.tie_embeddings) == (True, 2, "gelu", False)


@pytest.mark.parametrize("family", CONFIGS)
def test_an_unknown_key_is_refused_by_name(family):
    with pytest.raises(CheckpointError, match="logit_softcapping"):
        read(CONFIGS[family] | {"logit_softcapping": 30.0})


@pytest.mark.parametrize("family", CONFIGS)
def test_a_missing_key_is_named(family):
    values = {key: value for key, value in CONFIGS[family].items() if key != A_SIZE[family]}
    with pytest.raises(CheckpointError, match=f"lacks a key.*{A_SIZE[family]}"):
        read(values)


@pytest.mark.parametrize("value", ["8", 8.5, True, None, -8, 0, [8]], ids=repr)
@pytest.mark.parametrize("family", CONFIGS)
def test_a_size_that_is_no_size_is_refused(family, value):
    with pytest.raises(CheckpointError):
        read(CONFIGS[family] | {A_SIZE[family]: value})


REFUSED = [
    (LLAMA, "hidden_act", "quick_gelu"),
    (LLAMA, "rope_interleaved", True),
    (LLAMA, "partial_rotary_factor", 0.5),
    (QWEN3, "partial_rotary_factor", 0.5),
    (GPT2, "activation_function", "swish"),
    (GPT2, "scale_attn_by_inverse_layer_idx", True),
    (GPT2, "scale_attn_weights", False),
    (GPT2, "add_cross_attention", True),
    (GPT2, "pruned_heads", {"0": [1]}),
    (NEOX, "is_encoder_decoder", True),
    (LLAMA, "layer_types", ["full_attention", "sliding_attention"]),
    (QWEN3, "layer_types", ["chunked_attention"] * 2),
    (MISTRAL, "layer_types", ["sliding_attention", "full_attention"]),
    (QWEN3_MOE, "layer_types", ["sliding_attention", "sliding_attention"]),
    (MIXTRAL, "num_experts_per_tok", 1),
    (QWEN3_MOE, "num_experts", 1),
    (GEMMA, "hidden_activation", "gelu"),
    (GEMMA2, "hidden_act", "gelu"),
    (GEMMA2, "sliding_window_size", 7),
    (GEMMA2, "use_bidirectional_attention", True),
    (GEMMA3, "attn_logit_softcapping", 50.0),
    (GEMMA3, "partial_rotary_factor", 0.5),
    (GEMMA4, "use_bidirectional_attention", "all"),
    (GEMMA4 | {"enable_moe_block": True, "num_kv_shared_layers": 1}, "use_double_wide_mlp", True),
    (GEMMA4 | {"enable_moe_block": True}, "top_k_experts", 1),
    (GEMMA4, "per_layer_config", {"0": {"head_dim": 6}}),
    (PHI3, "lm_head_bias", True),
    (OLMOE, "clip_qkv", 8.0),
    (OLMO3, "rope_parameters", {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}),
    (NEOX, "hidden_act", "quick_gelu"),
]


@pytest.mark.parametrize(("values", "key", "value"), REFUSED, ids=[f"{v['model_type']} {k}" for v, k, _ in REFUSED])
def test_what_is_not_computed_is_refused_by_name(values, key, value):
    with pytest.raises(UnsupportedModel, match=key):
        read(values | {key: value})


@pytest.mark.parametrize(
    ("model_type", "needs", "shown"),
    [
        ("t5", "a decoder with cross-attention", False),
        ("clip", "predicts no tokens", False),
        ("rwkv", "mixer of RWKV", False),
        ("deepseek_v3", "(MLA)", True),
        ("hunyuan_v1_dense", "after their rotation", True),
        ("made_up", "docs/models.md", True),
    ],
)
def test_a_refused_family_says_what_is_missing(model_type, needs, shown):
    with pytest.raises(UnsupportedModel) as caught:
        family_of({"model_type": model_type})
    assert needs in caught.value.hint and ("show(model, tokenizer, prompt)" in caught.value.hint) == shown
    assert caught.value.hint != translate(caught.value.hint, "zh")


def test_refused_names_are_not_those_of_supported_models():
    assert not set(MISSING) & (set(FAMILIES) | set(ARCHITECTURES)) and "(MLA)" in missing_in_gguf("deepseek2", "")
    assert missing_in_gguf("made-up", "llama, qwen2") == "Its forward pass is not known here. Supported: llama, qwen2."


def test_layers_of_gemma4_differ_in_size_and_share_keys_and_values():
    five = {"num_hidden_layers": 5, "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"]}
    config = read(GEMMA4 | five | {"num_kv_shared_layers": 3, "use_double_wide_mlp": True})
    assert [config.kv_source(layer) for layer in range(5)] == [0, 1, 0, 1, 1]
    assert [config.at(layer).d_head for layer in range(5)] == [4, 6, 4, 6, 6]
    assert [config.at(layer).d_mlp // config.d_mlp for layer in range(5)] == [1, 1, 2, 2, 2]
    assert (config.kept, config.stateful) == ((1,), (0,))
    padded = {
        "00": {},
        "01": {"head_dim": 6},
        "03": {"head_dim": 6},
        "04": {"head_dim": 6},
    }  # as transformers writes it
    assert read({**GEMMA4, **five, "global_head_dim": None, "per_layer_config": padded}) == read(GEMMA4 | five)
    with pytest.raises(CheckpointError, match="n_shared_kv 5 of 5 layers"):
        read(GEMMA4 | five | {"num_kv_shared_layers": 5})
    with pytest.raises(CheckpointError, match="vocab_size_per_layer_input"):
        read(GEMMA4 | {"vocab_size_per_layer_input": 12})


def test_weights_of_keys_that_gemma4_does_not_read_are_left_out():
    """Published files also have keys and values of the layers that use those of earlier ones."""
    layout = FAMILIES["gemma4_text"].layout_for(GEMMA4 | {"num_hidden_layers": 12, "num_kv_shared_layers": 2})
    names = [f"model.layers.{layer}.self_attn.k_proj.weight" for layer in (1, 9, 10, 11)]
    assert [_rule(name, layout)[0] is None for name in names] == [False, False, True, True]


UNSEEN = [
    {"output_past": True, "pruned_heads": {}, "use_bfloat16": False, "n_special": 0, "predict_special_tokens": True},
    {"max_length": 20, "do_sample": True, "temperature": 0.7, "top_k": 50, "bad_words_ids": None},
    {"is_encoder_decoder": False, "add_cross_attention": False, "cross_attention_hidden_size": None},
    {"logit_softcapping": None, "quantization_config": None},
    {"torch_dtype": "float16", "dtype": "bfloat16"},
    {"time_step_limit": None, "initializer_range": math.inf, "dropout": math.nan},
]


@pytest.mark.parametrize("more", UNSEEN, ids=[next(iter(more)) for more in UNSEEN])
@pytest.mark.parametrize("family", CONFIGS)
def test_a_key_that_changes_nothing_is_no_reason_to_refuse(family, more):
    theirs = {"n_special", "predict_special_tokens", "output_past"}  # of GPT-2 alone
    more = {key: value for key, value in more.items() if family == "gpt2" or key not in theirs}
    assert read(CONFIGS[family] | more) == read(CONFIGS[family])


def test_a_key_of_another_family_is_refused():
    with pytest.raises(CheckpointError, match="n_special, predict_special_tokens"):
        read(LLAMA | {"n_special": 0, "predict_special_tokens": True})
    assert read(LLAMA | {"pretraining_tp": 2}) == read(LLAMA)  # it splits products; their sum stays


def test_sizes_that_a_family_derives_may_be_given():
    assert read(GPT2 | {"n_inner": 20}).d_mlp == 20 and read(GPT2 | {"n_inner": None}).d_mlp == 32
    assert read(LLAMA | {"head_dim": 6}).d_head == 6 and read(LLAMA | {"head_dim": None}).d_head == 4
    assert read(QWEN3 | {"head_dim": None}).d_head == 128  # as transformers, whose Qwen3 derives none


@pytest.mark.parametrize("kinds", [["full_attention"], ["full_attention"] * 3, "full_attention", 2, {}])
@pytest.mark.parametrize("values", [LLAMA, QWEN2, QWEN3], ids=["llama", "qwen2", "qwen3"])
def test_kinds_of_other_layers_than_there_are_are_refused(values, kinds):
    with pytest.raises(CheckpointError, match="layer_types"):
        read(values | {"layer_types": kinds})
    assert read(values | {"layer_types": ["full_attention"] * 2}) == read(values)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_rope_divided_by_one_and_empty_keys_of_rope_are_plain(key):
    assert read(LLAMA | {key: {"type": "linear", "factor": 1.0}}) == read(LLAMA)
    assert read(LLAMA | {key: {"rope_type": "default", "attention_factor": None}}) == read(LLAMA)


@pytest.mark.parametrize("kind", ["axial", "su2"])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("spelling", ["type", "rope_type"])
def test_other_rotary_scalings_are_refused_by_name(kind, key, spelling):
    with pytest.raises(UnsupportedModel, match=kind):
        read(LLAMA | {key: {spelling: kind, "factor": 2.0}})


SCALINGS = {
    "linear": ({"factor": 2.0}, {"factor": 2.0}),
    "dynamic": ({"factor": 2.0}, {"factor": 2.0, "original_n_ctx": 16}),
    "yarn": (
        {"factor": 4, "mscale": 1.0, "mscale_all_dim": 0.0, "beta_fast": None},
        {"factor": 4.0, "original_n_ctx": 16, "beta_fast": 32.0, "beta_slow": 1.0, "amplitude": 0.1 * math.log(4) + 1},
    ),
    "longrope": (
        {"short_factor": [1, 1.5], "long_factor": [2, 4.0], "original_max_position_embeddings": 4},
        {"factor": 4.0, "original_n_ctx": 4, "short_factors": (1.0, 1.5), "long_factors": (2.0, 4.0)}
        | {"amplitude": math.sqrt(2)},
    ),
}


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("spelling", ["type", "rope_type"])
@pytest.mark.parametrize("kind", SCALINGS)
def test_rotary_scalings(kind, key, spelling):
    theirs, ours = SCALINGS[kind]
    expected = RopeScaling(kind=kind, **ours)
    assert read(LLAMA | {key: {spelling: kind, **theirs}}).rope_scaling == expected


@pytest.mark.parametrize(
    ("scaling", "name"),
    [
        ({"type": "longrope", "short_factor": [1.0], "long_factor": "2"}, "long_factor"),
        ({"type": "longrope", "short_factor": [1.0, True], "long_factor": [1.0, 2.0]}, "short_factor"),
        (
            {"type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [1.0, 2.0], "short_mscale": 1.1},
            "short_mscale",
        ),
        ({"type": "yarn", "factor": 4.0, "beta_fast": 1.0, "beta_slow": 2.0}, "beta_slow"),
        ({"type": "linear"}, "factor"),
        ({"type": "linear", "factor": 2.0, "original_max_position_embeddings": 4}, "original_max_position_embeddings"),
    ],
)
def test_rotary_scalings_that_make_no_sense_are_refused(scaling, name):
    with pytest.raises(CheckpointError, match=name):
        read(LLAMA | {"rope_scaling": scaling})


def test_windows_of_layers():
    assert (read(MISTRAL).mixer, read(MISTRAL).window) == ("sliding_window", 6)
    assert read(MISTRAL | {"sliding_window": None}).mixer == "softmax"
    absent = {key: value for key, value in MISTRAL.items() if key != "sliding_window"}
    assert read(absent).window == 4096  # the default of transformers' class
    both = ("sliding_window", "softmax")
    assert (read(GEMMA2).mixer, read(GEMMA3).mixer, read(OLMO3).mixer) == (both, both, both)
    assert read(GEMMA3 | {"num_hidden_layers": 6, "sliding_window_pattern": None}).mixer == ("sliding_window",) * 5 + (
        "softmax",
    )
    windows = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
    assert read(QWEN2 | windows).mixer == ("softmax", "sliding_window") and read(QWEN2).window is None
    assert read(QWEN2_MOE | windows).mixer == ("sliding_window", "softmax")
    assert read(QWEN3_MOE | windows).mixer == "sliding_window"
    with pytest.raises(CheckpointError, match="sliding_window"):
        read(QWEN2 | {"layer_types": ["full_attention", "sliding_attention"]})


def test_the_facts_of_the_kin_of_llama():
    gemma2, gemma3, olmo, olmo3, smollm3 = (read(each) for each in (GEMMA2, GEMMA3, OLMO, OLMO3, SMOLLM3))
    assert (gemma2.norm_placement, gemma2.score_cap, gemma2.logit_cap, gemma2.mlp) == ("sandwich", 50, 30, "geglu_tanh")
    assert gemma2.score_multiplier == 5**-0.5 and read(GEMMA2 | {"query_pre_attn_scalar": 6}).score_multiplier is None
    assert gemma2.embed_scale and gemma2.tie_embeddings and read(GEMMA).mlp == "geglu_tanh"
    assert (gemma3.rope_theta, gemma3.rope_theta_local, gemma3.qk_norm, gemma3.score_cap) == (1e6, 1e4, True, None)
    assert (olmo.norm, olmo.norm_weight, olmo.qkv_limit) == ("layernorm", False, 8.0)
    assert (olmo3.norm_placement, olmo3.qk_norm_over, olmo3.rope_theta_local) == ("output", "all", 5e5)
    assert olmo3.rope_scaling.kind == "yarn" and olmo3.rope_scaling.amplitude == 1.2
    assert smollm3.unrotated == (1,) and read(SMOLLM3 | {"no_rope_layers": None}) == smollm3
    moe = read(QWEN3_MOE)
    assert (moe.n_expert, moe.experts_per_token, moe.d_expert, moe.divide_weights, moe.dense) == (3, 2, 10, True, (0,))
    assert (read(QWEN2_MOE).d_shared, read(QWEN2_MOE).shared_gate, read(OLMOE).divide_weights) == (14, True, False)
    assert read(QWEN2_MOE | {"decoder_sparse_step": 2}).dense == (0,)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_both_spellings_of_rope():
    scaling = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=8192)
    old = read(LLAMA | {"rope_scaling": LLAMA3, "rope_theta": 5e5})
    bare = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "rope_scaling")}
    new = read(bare | {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}})
    assert old == new and new.rope_scaling == scaling and new.rope_theta == 5e5
    both = read(LLAMA | {"rope_scaling": LLAMA3, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}, "rope_theta": 5e5})
    assert both == new
    assert read(bare).rope_theta == 10_000.0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"rope_parameters": {"rope_theta": 1.0, "rope_type": "default"}}, "rope_theta"),
        ({"rope_scaling": {"rope_type": "default", "mscale": 1.0}}, "mscale"),
        ({"rope_scaling": {"rope_type": "default", "factor": 8.0}}, "factor"),
        (
            {"rope_scaling": {key: value for key, value in LLAMA3.items() if key != "high_freq_factor"}},
            "high_freq_factor",
        ),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "low_freq_factor < high"),
        ({"rope_scaling": LLAMA3 | {"factor": 0}}, "positive numbers"),
        ({"rope_scaling": [1]}, "rope_scaling"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "full_attention"),
    ],
)
def test_rope_that_makes_no_sense_is_refused(change, name):
    with pytest.raises(CheckpointError, match=name):
        read(LLAMA | change)


def test_a_part_of_a_head_that_rotates_is_refused_where_the_family_has_none():
    with pytest.raises(UnsupportedModel, match="partial_rotary_factor"):
        read(LLAMA | {"rope_parameters": {"partial_rotary_factor": 0.5}})


def test_two_context_lengths_that_differ_are_refused():
    with pytest.raises(CheckpointError, match="n_ctx 17"):
        read(GPT2 | {"n_ctx": 17})


@pytest.mark.parametrize(
    "content",
    [
        '{"model_type": "rwkv"}',
        '{"model_type": ["gpt2"]}',
        "{}",
        '{"architectures": ["GPT2LMHeadModel", "GPT2Model"]}',
        '{"architectures": ["BertModel"]}',
        '{"architectures": [["GPT2LMHeadModel"]]}',
        '{"architectures": "GPT2LMHeadModel"}',
        '{"model_type": null, "architectures": ["GPT2LMHeadModel"]}',
        '{"model_type": "zamba2", "time_step_limit": [0.0, Infinity]}',
    ],
)
def test_other_architectures_are_refused(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UnsupportedModel, match="model_type"):
        load_folder(tmp_path)


def test_the_class_names_the_family_of_a_file_of_2019(tmp_path):
    values = {key: value for key, value in GPT2.items() if key != "model_type"}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert read_config(tmp_path)[1] == read(GPT2)


def test_python_numbers_are_read_and_refused_where_they_are_used(tmp_path):
    values = GPT2 | {"layer_norm_epsilon": math.nan, "task_specific_params": math.inf}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"not finite.*layer_norm_epsilon"):
        read_config(tmp_path)


def test_a_config_of_an_absurd_length_is_not_parsed(tmp_path):
    text = json.dumps(GPT2)
    (tmp_path / "config.json").write_text(text.ljust(MAX_CONFIG_BYTES))
    assert read_config(tmp_path)[1] == read(GPT2)
    (tmp_path / "config.json").write_text("{" + " " * MAX_CONFIG_BYTES)
    with pytest.raises(CheckpointError, match=r"too large.*config\.json: 1,048,577 bytes.*1,048,576"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "not json"])
def test_a_config_that_is_no_json_is_refused(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_folder(tmp_path)


def test_a_folder_without_a_config(tmp_path):
    save_file({"w": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_folder(tmp_path)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text", "bert"])
def test_quantized_weights_are_refused_by_their_method(family):
    values = {"model_type": family, "quantization_config": {"quant_method": "awq", "bits": 4}}
    with pytest.raises(UnsupportedModel, match="quantized") as caught:
        FAMILIES[family].to_config(values)
    assert "awq" in caught.value.got and "gguf" in caught.value.hint
