"""Config keys and weights are used, known not to matter, or refused by name."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import PRESETS, ModelConfig, RopeScaling
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.convert import expected_shapes
from model.loading.families import FAMILIES

# Configs as they lie on the Hub, in the older spelling, cut down in size.
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": 8,
    "initializer_range": 0.04,
    "intermediate_size": 12,
    "is_llama_config": True,
    "max_position_embeddings": 16,
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1",
    "use_cache": True,
    "vocab_size": 11,
}
GPT2 = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 16,
    "n_embd": 8,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 16,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "vocab_size": 11,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": 8,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "max_window_layers": 2,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 11,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
QWEN2 = QWEN | {"model_type": "qwen2"}
QWEN3 = QWEN | {"model_type": "qwen3", "head_dim": 6, "attention_bias": False, "rope_scaling": None}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "bos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 12,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 16,
    "model_type": "gpt_neox",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_parallel_residual": True,
    "vocab_size": 11,
}
CONFIGS = {"llama": LLAMA, "gpt2": GPT2, "qwen2": QWEN2, "qwen3": QWEN3, "gpt_neox": NEOX}
A_SIZE = {name: "n_embd" if name == "gpt2" else "hidden_size" for name in CONFIGS}
TINY = ModelConfig(vocab_size=11, n_ctx=16, n_layer=2, d_model=8, n_head=2)


def read(values: dict) -> ModelConfig:
    return FAMILIES[values["model_type"]].to_config(values)


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
    (LLAMA, "hidden_act", "gelu"),
    (LLAMA, "pretraining_tp", 2),
    (LLAMA, "rope_interleaved", True),
    (LLAMA, "partial_rotary_factor", 0.5),
    (QWEN3, "partial_rotary_factor", 0.5),
    (GPT2, "activation_function", "swish"),
    (GPT2, "scale_attn_by_inverse_layer_idx", True),
    (GPT2, "scale_attn_weights", False),
    (GPT2, "add_cross_attention", True),
    (QWEN2, "use_sliding_window", True),
    (QWEN2, "layer_types", ["full_attention", "sliding_attention"]),
    (QWEN3, "layer_types", ["sliding_attention"] * 2),
    (NEOX, "hidden_act", "quick_gelu"),
]


@pytest.mark.parametrize(("values", "key", "value"), REFUSED, ids=[f"{v['model_type']} {k}" for v, k, _ in REFUSED])
def test_what_is_not_computed_is_refused_by_name(values, key, value):
    with pytest.raises(UnsupportedModel, match=key):
        read(values | {key: value})


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope"])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("spelling", ["type", "rope_type"])
def test_other_rotary_scalings_are_refused_by_name(kind, key, spelling):
    with pytest.raises(UnsupportedModel, match=kind):
        read(LLAMA | {key: {spelling: kind, "factor": 2.0}})


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
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "low 4.0"),
        ({"rope_scaling": LLAMA3 | {"factor": 0}}, "factor"),
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


@pytest.mark.parametrize("content", ['{"model_type": "mamba"}', '{"model_type": ["gpt2"]}', "{}"])
def test_other_architectures_are_refused(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UnsupportedModel, match="model_type"):
        load_folder(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "not json"])
def test_a_config_that_is_no_json_is_refused(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_folder(tmp_path)


def test_a_folder_without_a_config(tmp_path):
    save_file({"w": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_folder(tmp_path)


# --- weights ---------------------------------------------------------------------------------------

# One weight of the second layer, under each family's own name.
A_WEIGHT = {
    "llama": "model.layers.1.mlp.up_proj.weight",
    "qwen2": "model.layers.1.self_attn.k_proj.bias",
    "qwen3": "model.layers.1.self_attn.q_norm.weight",
    "gpt2": "transformer.h.1.attn.c_attn.weight",
    "gpt_neox": "gpt_neox.layers.1.attention.query_key_value.weight",
}


@pytest.fixture(params=CONFIGS)
def checkpoint(request, tmp_path):
    """(family, folder, weights) as transformers writes a model with random weights."""
    import transformers

    torch.manual_seed(0)
    values = CONFIGS[request.param] | {"eos_token_id": 0, "bos_token_id": 0}
    config = transformers.AutoConfig.for_model(**values)
    transformers.AutoModelForCausalLM.from_config(config).float().save_pretrained(tmp_path)
    return request.param, tmp_path, load_file(tmp_path / "model.safetensors")


def store(folder, weights) -> None:
    save_file(weights, folder / "model.safetensors")


def test_the_whole_checkpoint_loads(checkpoint):
    _, folder, _ = checkpoint
    seen = []
    config, state = load_folder(folder, lambda *step: seen.append(step))
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == expected_shapes(config)
    assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for tensor in state.values())
    pointers = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
    assert len(set(pointers)) == len(pointers), "two weights share memory"
    assert seen[-1][0] == seen[-1][1] == 4 * sum(tensor.numel() for tensor in state.values())
    assert [step[0] for step in seen] == sorted(step[0] for step in seen)


def test_cancelling_stops_the_loading(checkpoint):
    class Cancelled(Exception):
        pass

    def cancel(done, total, what):
        raise Cancelled

    with pytest.raises(Cancelled):
        load_folder(checkpoint[1], cancel)


@pytest.mark.parametrize("extra", ["rotary.weight", "{a}_extra", "{layer 7}"])
def test_an_extra_weight_is_named(extra, checkpoint):
    family, folder, weights = checkpoint
    own = A_WEIGHT[family]
    name = {"{a}_extra": f"{own}_extra", "{layer 7}": own.replace(".1.", ".7.")}.get(extra, extra)
    store(folder, weights | {name: torch.zeros(2)})
    with pytest.raises(CheckpointError) as caught:
        load_folder(folder)
    assert caught.value.got == name


def test_a_missing_weight_is_named(checkpoint):
    family, folder, weights = checkpoint
    del weights[A_WEIGHT[family]]
    store(folder, weights)
    with pytest.raises(CheckpointError) as caught:
        load_folder(folder)
    prefix = A_WEIGHT[family].partition(".")[0] + "."
    assert caught.value.got == A_WEIGHT[family].removeprefix(prefix)


@pytest.mark.parametrize(
    "change",
    [lambda w: w[:-1].clone(), lambda w: w[None].clone(), lambda w: w.sum()],
    ids=["one row less", "one axis more", "a number"],
)
def test_a_wrong_shape_is_named(change, checkpoint):
    family, folder, weights = checkpoint
    store(folder, weights | {A_WEIGHT[family]: change(weights[A_WEIGHT[family]])})
    with pytest.raises(CheckpointError, match="shape") as caught:
        load_folder(folder)
    assert A_WEIGHT[family] in caught.value.got


def test_one_weight_under_two_names_is_refused(checkpoint):
    family, folder, weights = checkpoint
    prefix = A_WEIGHT[family].partition(".")[0] + "."
    twin = A_WEIGHT[family].removeprefix(prefix)
    store(folder, weights | {twin: weights[A_WEIGHT[family]].clone()})
    with pytest.raises(CheckpointError, match="same meaning"):
        load_folder(folder)


MASKS = {
    "gpt2": ("transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"),
    "llama": ("model.layers.0.self_attn.rotary_emb.inv_freq",),
    "gpt_neox": ("gpt_neox.layers.0.attention.bias", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
}


def test_buffers_of_old_files_are_dropped(checkpoint):
    family, folder, weights = checkpoint
    _, plain = load_folder(folder)
    buffers = {name: torch.ones(1, 1, 4, 4, dtype=torch.uint8) for name in MASKS.get(family, ())}
    store(folder, weights | buffers)
    _, state = load_folder(folder)
    assert all(torch.equal(plain[name], state[name]) for name in plain)


HEADS = {"gpt2": "lm_head.weight", "llama": "lm_head.weight", "qwen2": "lm_head.weight", "qwen3": "lm_head.weight"}
EMBEDDINGS = {"gpt2": "transformer.wte.weight"}


def test_a_tied_head_may_be_there_but_must_be_the_embedding(checkpoint):
    family, folder, weights = checkpoint
    if family == "gpt_neox":
        assert "embed_out.weight" in weights  # not tied
        return
    head = weights[EMBEDDINGS.get(family, "model.embed_tokens.weight")].clone()
    store(folder, weights | {HEADS[family]: head})
    _, state = load_folder(folder)
    assert "unembed.weight" not in state
    head[0, 0] += 1
    store(folder, weights | {HEADS[family]: head})
    with pytest.raises(CheckpointError, match="ties the head"):
        load_folder(folder)


def test_more_layers_than_tensors_is_refused_before_anything_is_built(checkpoint):
    family, folder, _ = checkpoint
    values = json.loads((folder / "config.json").read_text())
    values["n_layer" if family == "gpt2" else "num_hidden_layers"] = 10**9
    values.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match="more layers"):
        load_folder(folder)


@pytest.mark.parametrize("size", [10**12, 10**30])
def test_absurd_sizes_are_refused(size, checkpoint):
    _, folder, _ = checkpoint
    values = json.loads((folder / "config.json").read_text()) | {"vocab_size": size}
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError) as caught:
        load_folder(folder)
    assert len(str(caught.value)) < 300


# --- build and our own format ----------------------------------------------------------------------


def test_build_takes_the_tensors_as_they_are():
    state = {name: torch.randn(shape) for name, shape in expected_shapes(TINY).items()}
    model = build(TINY, state)
    assert model.unembed.weight is model.embed.weight and not model.training
    assert model.embed.weight.data_ptr() == state["embed.weight"].data_ptr()
    assert all(not parameter.is_meta for parameter in model.parameters())
    assert model(torch.zeros(1, 3, dtype=torch.long)).isfinite().all()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("blocks.1.mlp.up.bias"),
        lambda s: s.update({"blocks.1.mlp.up.bias": torch.zeros(3)}),
        lambda s: s.update({"more": torch.zeros(3)}),
        lambda s: s.pop("embed.weight"),
    ],
    ids=["missing", "shape", "extra", "no embedding"],
)
def test_build_names_what_does_not_fit(change):
    state = {name: torch.randn(shape) for name, shape in expected_shapes(TINY).items()}
    change(state)
    with pytest.raises(CheckpointError, match=r"blocks\.1\.mlp\.up\.bias|more|embed\.weight"):
        build(TINY, state)


SMALL = {"vocab_size": 11, "n_ctx": 16, "n_layer": 2, "d_model": 8, "n_head": 2, "n_kv_head": None, "d_mlp": 12}


@pytest.mark.parametrize("preset", PRESETS)
def test_our_own_checkpoints_come_back_the_same(preset, tmp_path):
    kv = 1 if PRESETS[preset].n_kv_head != PRESETS[preset].n_head else 2
    scaling = RopeScaling(factor=2.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=8)
    rope = {"rope_scaling": scaling} if PRESETS[preset].positions == "rope" else {}
    config = dataclasses.replace(PRESETS[preset], **SMALL | {"n_kv_head": kv, "d_head": 6}, **rope)
    model = Transformer(config).eval()
    save_folder(tmp_path, model)
    again_config, state = load_folder(tmp_path)
    ids = torch.arange(11)[None]
    assert again_config == config
    assert torch.equal(build(again_config, state)(ids), model(ids))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_saving_over_a_model_in_use_does_not_harm_it(tmp_path):
    torch.manual_seed(0)
    save_folder(tmp_path, Transformer(TINY))
    model, ids = build(*load_folder(tmp_path)), torch.arange(11)[None]
    before = model(ids)
    save_folder(tmp_path, Transformer(TINY))
    assert torch.equal(model(ids), before) and not torch.equal(build(*load_folder(tmp_path))(ids), before)


def test_number_of_the_parameters():
    """Smallest case by hand: V D + n_ctx D + per layer (4 D^2 + 4 D + 8 D^2 + 5 D + 4 D) + 2 D; a tied head is once."""
    D = 8
    count = 11 * D + 16 * D + 2 * (4 * D * D + 4 * D + 8 * D * D + 5 * D + 4 * D) + 2 * D
    assert sum(parameter.numel() for parameter in Transformer(TINY).parameters()) == count
