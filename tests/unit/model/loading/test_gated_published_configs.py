"""Published files config.json of families with gated states, and of models whose text part is read.

The parameters are transformers' (5.23) of the text model, counted without memory. Names with two dashes are copies of
the files; the others were typed.
"""

import json
from pathlib import Path

import pytest
import torch

from model.anatomy.anatomy import config_of, n_params
from model.anatomy.architectures import ARCHITECTURES
from model.errors import CheckpointError, UnsupportedModel
from model.loading.checkpoint import read_config
from model.loading.convert import plan, skeleton
from model.loading.families import FAMILIES

FILE = Path(__file__).parents[3] / "data" / "gated_published_configs.json"
PUBLISHED = {entry["name"]: entry for entry in json.loads(FILE.read_text(encoding="utf-8"))}


def config_named(name: str):
    return config_of(json.dumps(PUBLISHED[name]["config"]))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_parameters_of_transformers(name, tmp_path):
    config = config_named(name)
    assert n_params(config) == PUBLISHED[name]["parameters"]
    assert sum(each.numel() for each in skeleton(config).parameters()) == PUBLISHED[name]["parameters"]
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[name]["config"]))
    assert read_config(tmp_path)[1] == config


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("qwen3-next-80b-a3b", "qwen3-next-80b-a3b"),
        ("Qwen--Qwen3.5-27B", "qwen3.5-27b"),
        ("lfm2-1.2b", "lfm2-1.2b"),
        ("lfm2-350m", "lfm2-350m"),
    ],
)
def test_the_built_in_architectures_are_the_published_configs(name, preset):
    assert config_named(name) == ARCHITECTURES[preset].config


def test_the_facts_of_published_models():
    next_80b, lfm2 = config_named("qwen3-next-80b-a3b"), config_named("lfm2-1.2b")
    assert next_80b.mixers == ("gated_delta", "gated_delta", "gated_delta", "softmax") * 12
    assert (next_80b.n_delta_head, next_80b.n_delta_key, next_80b.d_rotary, next_80b.output_gate) == (32, 16, 64, True)
    assert (next_80b.n_expert, next_80b.experts_per_token, next_80b.d_shared, next_80b.dense) == (512, 10, 512, ())
    assert [layer for layer, name in enumerate(lfm2.mixers) if name == "softmax"] == [2, 5, 8, 10, 12, 14]
    assert (lfm2.d_mlp, lfm2.d_conv, lfm2.qk_norm, lfm2.tie_embeddings) == (8192, 3, True, True)
    gemma, ministral = config_named("gemma-3-27b"), config_named("mlc--ministral3_3b_2512")
    assert (gemma.n_head, gemma.vocab_size, gemma.window, gemma.tie_embeddings) == (32, 262_208, 1024, True)
    assert gemma.score_multiplier == 168**-0.5 and gemma.rope_scaling.factor == 8.0
    # Past this length its queries would grow with the position, which is not computed.
    assert (ministral.n_ctx, ministral.rope_scaling.kind, ministral.tie_embeddings) == (16_384, "yarn", True)
    assert config_named("vaultgemma-1b").norm_placement == "pre"


def changed(name: str, **changes: object) -> str:
    return json.dumps(PUBLISHED[name]["config"] | changes)


@pytest.mark.parametrize(
    ("text", "error", "got"),
    [
        (changed("qwen3-next-80b-a3b", hidden_act="gelu"), UnsupportedModel, "hidden_act = 'gelu'"),
        (changed("qwen3-next-80b-a3b", attn_output_gate=False), UnsupportedModel, "attn_output_gate = False"),
        (changed("qwen3-next-80b-a3b", layer_types=["mamba"] * 48), UnsupportedModel, "layer_types: 'mamba'"),
        (changed("qwen3-next-80b-a3b", linear_mystery=1), CheckpointError, "linear_mystery"),
        (changed("lfm2-1.2b", conv_dim=7), UnsupportedModel, "conv_dim = 7"),
        (changed("gemma-3-4b", text_config=None), CheckpointError, "text_config"),
        (changed("gemma-3-4b", text_config={"model_type": "gemma2"}), UnsupportedModel, "model_type = 'gemma2'"),
        (changed("gemma-3-4b", mystery=1), CheckpointError, "mystery"),
    ],
)
def test_what_would_change_numbers_is_refused_by_name(text, error, got):
    with pytest.raises(error) as caught:
        config_of(text)
    assert caught.value.got == got


def test_names_of_other_parts_are_left_out():
    values = PUBLISHED["gemma-3-4b"]["config"]
    text = {**values["text_config"], "num_hidden_layers": 1}
    family = FAMILIES["gemma3"]
    config = family.to_config({**values, "text_config": text})
    shapes = {name: tuple(each.shape) for name, each in skeleton(config).state_dict().items()}
    shapes.pop("unembed.weight")
    parts = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    parts += tuple(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"))
    parts += tuple(f"mlp.{name}_proj" for name in ("gate", "up", "down"))
    for prefix in ("language_model.model.", "model.language_model."):
        names = [f"{prefix}layers.0.{part}.weight" for part in parts]
        names += [f"{prefix}embed_tokens.weight", f"{prefix}norm.weight"]
        beside = ["vision_tower.vision_model.post_layernorm.bias", "model.multi_modal_projector.mm_input.weight"]
        assert set(plan([*names, *beside], family.layout, config, shapes)) == set(names)
        with pytest.raises(CheckpointError, match="does not use"):
            plan([*names, f"{prefix}mystery.weight"], family.layout, config, shapes)


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_transformers_counts_the_same(name):
    import transformers

    outer = PUBLISHED[name]["config"]
    values = dict(outer.get("text_config", outer))
    if outer.get("tie_word_embeddings") is not None:
        values["tie_word_embeddings"] = outer["tie_word_embeddings"]
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**values))
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]["parameters"]
