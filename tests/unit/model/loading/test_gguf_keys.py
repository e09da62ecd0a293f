"""Keys of a GGUF file's metadata: those that change nothing are no reason to refuse, other values are."""

import dataclasses
import math

import pytest

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import RopeScaling
from model.loading.gguf_file import read_gguf
from model.loading.gguf_models import to_config
from tests.parity.families import build_hf
from tests.parity.weights.gguf_files import write_gguf

NEUTRAL = {
    "rope.scaling.type": "none",
    "rope.scaling.factor": 1.0,
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.finetuned": True,
    "rope.scaling.original_context_length": 8,
    "rope.scale_linear": 1.0,
    "expert_shared_count": 0,
    "nextn_predict_layers": 0,
    "attention.max_alibi_bias": 0.0,
    "attention.clamp_kqv": 0.0,
    "attn_logit_softcapping": 0.0,
    "final_logit_softcapping": 0.0,
    "tensor_data_layout": "Meta AI original pth",
}
NOTES = {"rope.scaling.finetuned", "rope.scaling.original_context_length", "expert_shared_count"}  # at any value
LINEAR = RopeScaling(kind="linear", factor=2.0)
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
    "rope.scaling.yarn_beta_fast": 16.0,
}
READ = {
    "linear": ({"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {"rope_scaling": LINEAR}),
    "factor alone": ({"rope.scaling.factor": 2.0}, {"rope_scaling": LINEAR}),
    "factor of 2023": ({"rope.scale_linear": 2.0}, {"rope_scaling": LINEAR}),
    "type none": ({"rope.scaling.type": "none", "rope.scaling.factor": 2.0}, {"rope_scaling": None}),
    "yarn": (
        YARN,
        {
            "rope_scaling": RopeScaling(
                kind="yarn",
                factor=4.0,
                original_n_ctx=16,
                beta_fast=16.0,
                beta_slow=1.0,
                amplitude=0.1 * math.log(4) + 1,
            )
        },
    ),
    "window": ({"attention.sliding_window": 7}, {"window": 7, "mixer": "sliding_window"}),
    "rotated part": ({"rope.dimension_count": 6}, {"rotary_fraction": 0.5}),
}

READ_KEYS = {"rope.scaling.factor", "rope.scale_linear", "rope.scaling.type"}


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return the config of a small Llama's file with further metadata."""
    file = read_gguf(write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf", build_hf("llama GQA", shaken=False)))

    def config(more: dict) -> ModelConfig:
        extra = {f"llama.{key}": value for key, value in more.items()}
        return to_config(dataclasses.replace(file, metadata=file.metadata | extra))

    return config


def test_neutral_keys_change_nothing(read):
    assert read(NEUTRAL) == read({})


@pytest.mark.parametrize("case", READ)
def test_what_is_read(read, case):
    keys, fields = READ[case]
    found = dataclasses.asdict(read(keys))
    wanted = dataclasses.asdict(dataclasses.replace(read({}), **fields))
    assert found == wanted


def test_amplitude_of_yarn_is_its_own_or_named_as_such(read):
    usual = 0.1 * math.log(4) + 1
    for key in ("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"):
        assert read(YARN | {key: usual}) == read(YARN | {key: 1.0}) == read(YARN)
        with pytest.raises(UnsupportedModel, match=key):
            read(YARN | {key: 1.5})


@pytest.mark.parametrize("key", sorted(NEUTRAL.keys() - NOTES - READ_KEYS))
def test_another_value_is_refused_by_name(read, key):
    value = NEUTRAL[key]
    with pytest.raises(UnsupportedModel, match=key):
        read({key: "other" if isinstance(value, str) else value + 1})


def test_an_unknown_scaling_is_refused_by_name(read):
    with pytest.raises(UnsupportedModel, match=r"rope\.scaling\.type"):
        read({"rope.scaling.type": "longrope"})


def test_an_unknown_key_is_refused_by_name(read):
    with pytest.raises(CheckpointError, match=r"logit_scale, residual_scale"):
        read({"logit_scale": 0.5, "residual_scale": 0.2})
