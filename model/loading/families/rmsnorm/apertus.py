"""Apertus: like Qwen3 apart from an MLP without a gate, whose activation xIELU has four numbers in each layer."""

from collections.abc import Sequence

from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama
from model.loading.families.common import Family, check_keys, flag
from model.loading.families.keys import biases

_KNOWN = llama.COMMON | {"attention_bias"}
_ACCEPTED = {"hidden_act": ("xielu",), "qk_norm": (True,), "post_norm": (False,), "mlp_bias": (False,)}
_ROPE = {"rope_type": "llama3", "rope_theta": 12_000_000.0, "factor": 8.0, "low_freq_factor": 1.0}
_ROPE |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an Apertus config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, _KNOWN, _ACCEPTED)
    given = {"max_position_embeddings": 65_536, **{key: value for key, value in hf.items() if key != "hidden_act"}}
    if all(given.get(key) is None for key in ("rope_parameters", "rope_scaling", "rope_theta")):
        given["rope_parameters"] = _ROPE
    fields = llama.swiglu_fields(given, eps=1e-5, theta=12_000_000.0) | llama.full(hf)
    return make_config(fields | biases(flag(hf, "attention_bias", False)) | {"mlp": "xielu", "qk_norm": True})


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an Apertus config.json, the inverse of `to_config`."""
    return llama.swiglu_told(c) | {"hidden_act": "xielu", "attention_bias": c.q_bias}


def _one(tensor: Tensor, config: ModelConfig) -> tuple[Tensor]:
    """Convert a single number to one with an axis. [] -> [1]"""
    return (tensor.reshape(1),)


def _none(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Convert it back, the inverse of `_one`."""
    return parts[0].reshape(())


_NORMS = {"attention_layernorm": "norm1", "feedforward_layernorm": "norm2"}
NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if "layernorm" not in theirs and "gate_proj" not in theirs},
    **llama.QK_NORMS,
    **{f"layers.{{i}}.{theirs}.weight": f"blocks.{{i}}.{ours}.weight" for theirs, ours in _NORMS.items()},
    **{f"layers.{{i}}.mlp.act_fn.{name}": f"blocks.{{i}}.mlp.act.{name}" for name in ("alpha_p", "alpha_n")},
    **{
        f"layers.{{i}}.mlp.act_fn.{name}": Into((f"blocks.{{i}}.mlp.act.{name}",), _one, _none)
        for name in ("beta", "eps")
    },
}

APERTUS = Family("Apertus", to_config, Layout(NAMES, prefix="model."), to_hf)
