"""Weights of every family: used, known not to matter, or refused by name; and the project's own format."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import CheckpointError
from model.gpt.presets import PRESETS
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.convert import expected_shapes
from tests.support.models.family_configs import CONFIGS, TINY

# --- weights ---------------------------------------------------------------------------------------

# One weight of the second layer, under each family's own name.
A_WEIGHT = {
    "llama": "model.layers.1.mlp.up_proj.weight",
    "qwen2": "model.layers.1.self_attn.k_proj.bias",
    "qwen3": "model.layers.1.self_attn.q_norm.weight",
    "gpt2": "transformer.h.1.attn.c_attn.weight",
    "gpt_neox": "gpt_neox.layers.1.attention.query_key_value.weight",
    "mistral": "model.layers.1.mlp.up_proj.weight",
    "mixtral": "model.layers.1.block_sparse_moe.experts.2.w3.weight",
    "qwen2_moe": "model.layers.1.mlp.experts.0.gate_proj.weight",
    "qwen3_moe": "model.layers.1.mlp.experts.1.down_proj.weight",
    "gemma": "model.layers.1.post_attention_layernorm.weight",
    "gemma2": "model.layers.1.pre_feedforward_layernorm.weight",
    "gemma3_text": "model.layers.1.self_attn.q_norm.weight",
    "gemma4_text": "model.layers.1.per_layer_projection.weight",
    "phi3": "model.layers.1.self_attn.qkv_proj.weight",
    "olmo": "model.layers.1.self_attn.v_proj.weight",
    "olmo2": "model.layers.1.post_feedforward_layernorm.weight",
    "olmo3": "model.layers.1.self_attn.k_norm.weight",
    "olmoe": "model.layers.1.mlp.experts.2.up_proj.weight",
    "smollm3": "model.layers.1.mlp.up_proj.weight",
}


@pytest.fixture(params=CONFIGS)
def checkpoint(request, tmp_path):
    """(family, folder, weights) as transformers writes a model with random weights."""
    import transformers

    torch.manual_seed(0)
    values = CONFIGS[request.param] | {"eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0}
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
    with pytest.raises(CheckpointError, match="same parameter"):
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


EMBEDDINGS = {"gpt2": "transformer.wte.weight"}


def test_a_tied_head_may_be_there_but_must_be_the_embedding(checkpoint):
    family, folder, weights = checkpoint
    if weights.keys() & {"embed_out.weight", "lm_head.weight"}:  # not tied
        assert family in ("gpt_neox", "olmo", "olmo2", "olmo3", "olmoe")
        return
    head = weights[EMBEDDINGS.get(family, "model.embed_tokens.weight")].clone()
    store(folder, weights | {"lm_head.weight": head})
    _, state = load_folder(folder)
    assert "unembed.weight" not in state
    head[0, 0] += 1
    store(folder, weights | {"lm_head.weight": head})
    with pytest.raises(CheckpointError, match="ties the unembedding"):
        load_folder(folder)


def test_more_layers_than_tensors_is_refused_before_anything_is_built(checkpoint):
    family, folder, _ = checkpoint
    values = json.loads((folder / "config.json").read_text())
    values["n_layer" if family == "gpt2" else "num_hidden_layers"] = 10**9
    for key in ("layer_types", "no_rope_layers"):
        values.pop(key, None)
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"more layers|implausible"):
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
