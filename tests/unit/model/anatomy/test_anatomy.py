"""What a model is made of, from its config alone: against the model itself, published counts, and sums by hand."""

import dataclasses
import json
from pathlib import Path

import pytest

from model.anatomy.anatomy import MOST_LAYERS, MOST_TEXT, PARTS, Weight, config_of, kinds_of_weights, n_params, weights
from model.anatomy.architectures import ARCHITECTURES
from model.errors import CheckpointError, InputError, UnsupportedModel
from model.gpt.config import ModelConfig, to_dict
from model.gpt.presets import PRESETS
from model.loading.convert import skeleton
from model.loading.families import FAMILIES
from tests.support.models.helpers import MORE_VARIANTS, VARIANTS, tiny_config
from tests.support.models.mixtures import MIXTURES

PUBLISHED = Path(__file__).parents[3] / "data" / "configs"  # config.json files as the Hub has them
FILES = sorted(path.stem for path in PUBLISHED.glob("*.json"))
# Encoders, and models whose layers differ in their norms or have no MLP
OTHERS = {
    "bert": {"two_way": True, "norm_placement": "post", "n_segment": 2, "embed_norm": True, "head_dense": True},
    "modernbert": {"two_way": True, "unnormed": (0,), "embed_norm": True, "norm_bias": False, "head_dense": True},
    "mamba": {"mixer": "mamba", "mlp": "none", "positions": "none"},
    "late": {"unnormed": (1,), "unrotated": (2,), "positions": "rope", "n_expert": 3, "dense": (1,)},
}
KNOWN = (
    {
        f"variant {name}": tiny_config(changes)
        for name, changes in (VARIANTS | MORE_VARIANTS | MIXTURES | OTHERS).items()
    }
    | {f"preset {name}": config for name, config in PRESETS.items()}
    | {name: each.config for name, each in ARCHITECTURES.items()}
)


def published(name: str) -> dict:
    return json.loads((PUBLISHED / f"{name}.json").read_text())


# --- against the model ---


@pytest.mark.parametrize("name", KNOWN)
def test_weights_are_those_of_the_model(name):
    """Names in their order, shapes and the sum, against a model without memory behind its parameters."""
    config, model = KNOWN[name], skeleton(KNOWN[name])
    found = weights(config)
    assert [(each.name, each.shape) for each in found] == [(n, tuple(p.shape)) for n, p in model.named_parameters()]
    assert sum(each.size for each in found) == n_params(config) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", KNOWN)
def test_every_weight_belongs_to_a_part_and_its_layer(name):
    for each in weights(KNOWN[name]):
        assert each.part in PARTS
        assert each.layer == (int(each.name.split(".")[1]) if each.name.startswith("blocks.") else None)


@pytest.mark.parametrize("name", [name for name, each in ARCHITECTURES.items() if each.published])
def test_published_totals(name):
    assert n_params(ARCHITECTURES[name].config) == ARCHITECTURES[name].published


@pytest.mark.parametrize(("name", "said"), [("350m", 350e6), ("1.3b", 1.3e9), ("6.7b", 6.7e9), ("175b", 175e9)])
def test_sizes_of_gpt3_are_those_of_its_report(name, said):
    assert n_params(ARCHITECTURES[f"gpt3-{name}"].config) == pytest.approx(said, rel=0.02)  # it gives two digits


def test_kinds_of_layers_sum_to_all_weights():
    """Layers differ in their mixer and in whether they have experts; each kind is counted as often as it occurs."""
    config = tiny_config(MIXTURES["qwen-moe"] | {"mixer": ("softmax", "sliding_window", "softmax"), "window": 4})
    counted = [(each.name.split(".")[1], n) for each, n in kinds_of_weights(config) if each.name.endswith("q.weight")]
    assert sorted(counted) == [("0", 1), ("1", 1), ("2", 1)]
    assert sum(each.size * n for each, n in kinds_of_weights(config)) == sum(each.size for each in weights(config))


def test_gpt2_by_hand():
    """Radford et al. 2019: 50,257 tokens, 1,024 positions, 12 layers of width 768 and an MLP of 3,072."""
    block = (
        2 * (768 + 768)  # two LayerNorms
        + 3 * (768 * 768 + 768)  # q, k, v
        + (768 * 768 + 768)  # o
        + (3072 * 768 + 3072)  # up
        + (768 * 3072 + 768)  # down
    )
    assert block == 7_087_872
    assert n_params(PRESETS["gpt2"]) == 50_257 * 768 + 1024 * 768 + 12 * block + 2 * 768 == 124_439_808


def test_a_tied_head_counts_once():
    config = tiny_config({"tie_embeddings": True})
    untied = dataclasses.replace(config, tie_embeddings=False)
    assert n_params(untied) - n_params(config) == config.vocab_size * config.d_model
    assert [each.part for each in weights(untied)][-1] == "unembed"
    assert "unembed" not in {each.part for each in weights(config)}


def test_a_size_is_a_product():
    assert Weight("w", (7, 11, 13), "q").size == 1001
    assert Weight("w", (1 << 31, 1 << 31), "q").size == 1 << 62  # beyond what an array could count


# --- pasted texts ---

OF_FILE = {
    "gpt2": "gpt2",
    "llama-3.1-8b": "llama-3.1-8b",
    "qwen3-8b": "qwen3-8b",
    "qwen2.5-0.5b": "qwen2.5-0.5b",
    "pythia-70m": "pythia-70m",
    "smollm2-135m": "smollm2-135m",
}


@pytest.mark.parametrize("name", OF_FILE)
def test_published_configs_are_the_architectures(name):
    assert config_of((PUBLISHED / f"{name}.json").read_text()) == ARCHITECTURES[OF_FILE[name]].config


# Families whose published files are not copied here.
WITHOUT = {
    *("ministral", "mamba2", "falcon_h1", "bamba", "granitemoehybrid"),
    *("qwen3_5_text", "qwen3_5_moe_text", "qwen3_5_moe", "mistral3"),
    *("cwm", "granitemoeshared", "iquestcoder", "jais2"),
}


def test_every_family_can_be_pasted():
    """All families have a published file but some, and this project's own, whose config.json has our fields."""
    own = {"model_type": "attention-playground"} | to_dict(tiny_config())
    assert config_of(json.dumps(own)) == tiny_config()
    types = {published(name)["model_type"] for name in FILES if config_of((PUBLISHED / f"{name}.json").read_text())}
    kinds = ("published_configs", "more_published_configs", "gated_published_configs", "published_shapes")
    for name in (f"{kind}.json" for kind in kinds):
        entries = json.loads((PUBLISHED.parent / name).read_text(encoding="utf-8"))
        types |= {each["config"].get("model_type") for each in entries if "parameters" in each}
    missing = set(FAMILIES) - types - {own["model_type"]}
    assert missing <= WITHOUT, f"tests/data has a published config.json of {', '.join(sorted(missing - WITHOUT))}"


@pytest.mark.parametrize(
    "change",
    [
        {"quantization_config": {"quant_method": "fp8", "bits": 8}},
        {"max_length": 20, "do_sample": False},
        {"use_mrope": False, "is_encoder_decoder": False},
        {"hidden_dropout_prob": 0.1},
    ],
)
@pytest.mark.parametrize("name", FILES)
def test_keys_that_change_nothing_are_forgiven(name, change):
    assert config_of(json.dumps(published(name) | change)) == config_of(json.dumps(published(name)))


def test_what_surrounds_a_paste_is_forgiven():
    text = (PUBLISHED / "gpt2.json").read_text()
    for around in (
        f"\ufeff{text}",
        f"```json\n{text}\n```",
        f"\n\n  {text}\n\n",
        f"```\n{text}```\n".replace("}```", "}\n```"),
    ):
        assert config_of(around) == PRESETS["gpt2"]


@pytest.mark.parametrize(
    ("change", "error", "got"),
    [
        ({"n_layer": "12"}, CheckpointError, "n_layer"),
        ({"n_layer": 0}, CheckpointError, "n_layer"),
        ({"n_layer": -3}, CheckpointError, "n_layer"),
        ({"n_layer": True}, CheckpointError, "n_layer"),
        ({"n_layer": 1.5}, CheckpointError, "n_layer"),
        ({"n_embd": 770}, CheckpointError, "d_model 770"),
        ({"n_head": None}, CheckpointError, "n_head"),
        ({"vocab_size": 1 << 40}, CheckpointError, "vocab_size"),
        ({"n_layer": MOST_LAYERS + 1}, CheckpointError, str(MOST_LAYERS)),
        ({"n_layer": 10**30}, CheckpointError, "n_layer"),
        ({"use_mrope": True}, UnsupportedModel, "use_mrope"),
        ({"activation_function": "swish"}, UnsupportedModel, "swish"),
        ({"num_experts": 8}, CheckpointError, "num_experts"),
        ({"is_encoder_decoder": True}, UnsupportedModel, "is_enc"),
        ({"model_type": "rwkv"}, UnsupportedModel, "rwkv"),
        ({"model_type": ["gpt2"]}, UnsupportedModel, "gpt2"),
        ({"model_type": None}, UnsupportedModel, "None"),
        ({"layer_norm_epsilon": 10**400}, CheckpointError, "epsilon"),
        ({"model_type": "<script>" * 40}, UnsupportedModel, "script"),
    ],
)
def test_a_config_of_no_model_is_refused_by_its_key(change, error, got):
    with pytest.raises(error) as caught:
        config_of(json.dumps(published("gpt2") | change))
    assert got in caught.value.got and caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "gpt2",
        "[]",
        "null",
        "3",
        '"model"',
        "{",
        '{"model_type": "gpt2",}',
        '{"a": 1, "a": 2}',
        "[" * 5000,
        '{"model_type": "gpt2"' + " " * 9000,
        "\x00",
        "```json\n```",
    ],
)
def test_a_text_that_is_no_config_is_refused(text):
    with pytest.raises(InputError, match=r"not a config\.json"):
        config_of(text)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ('{"model_type": "zamba2", "time_step_limit": [0.0, Infinity]}', "zamba2"),
        ('{"add_prefix_space": false, "model_max_length": 1024}', "no model_type"),
        ('{"a": NaN}', "no model_type"),
    ],
)
def test_json_of_another_kind_is_refused_for_its_architecture(text, got):
    with pytest.raises(UnsupportedModel, match=r"(?i)architecture") as caught:
        config_of(text)
    assert got in caught.value.got and "Infinity" not in str(caught.value)


def test_a_huge_text_is_not_read():
    with pytest.raises(InputError, match="too long"):
        config_of(" " * (MOST_TEXT + 1))
    config_of((PUBLISHED / "gpt2.json").read_text().ljust(MOST_TEXT))


def test_the_largest_config_that_is_read_is_counted():
    largest = published("gpt2") | {"n_layer": MOST_LAYERS, "vocab_size": (1 << 31) - 1}
    config = config_of(json.dumps(largest))
    assert n_params(config) == sum(each.size for each in weights(config))
    assert isinstance(config, ModelConfig)
