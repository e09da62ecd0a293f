"""Keys of a GGUF file's metadata: those that change nothing are no reason to refuse, other values are."""

import dataclasses

import pytest

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import ModelConfig
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
NOTES = {"rope.scaling.finetuned", "rope.scaling.original_context_length"}  # at any value


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


@pytest.mark.parametrize("key", sorted(NEUTRAL.keys() - NOTES))
def test_another_value_is_refused_by_name(read, key):
    value = NEUTRAL[key]
    with pytest.raises(UnsupportedModel, match=key):
        read({key: "yarn" if isinstance(value, str) else value + 1})


def test_an_unknown_key_is_refused_by_name(read):
    with pytest.raises(CheckpointError, match=r"logit_scale, residual_scale"):
        read({"logit_scale": 0.5, "residual_scale": 0.2})
