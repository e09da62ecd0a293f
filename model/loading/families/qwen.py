"""Qwen2 (Llama with biases on q, k and v) and Qwen3 (Llama with RMSNorm over each head's q and k)."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama
from model.loading.families.common import ROPE_KEYS, Family, check_keys, flag

KNOWN = {
    *llama.SIZES,
    *ROPE_KEYS,
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "tie_word_embeddings",
    "layer_types",
    # Used only if use_sliding_window is true, which is rejected.
    "sliding_window",
    "max_window_layers",
}
ACCEPTED = {"use_sliding_window": (False,), "partial_rotary_factor": (1.0,)}


def qwen2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    return _config(hf, KNOWN, {"q_bias": True, "k_bias": True, "v_bias": True, "o_bias": False})


def qwen3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen3 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    bias = flag(hf, "attention_bias", False)
    if hf.get("head_dim") is None:  # Qwen3 does not derive the head size; its default is 128
        hf = {**hf, "head_dim": 128}
    return _config(hf, KNOWN | {"attention_bias"}, {f"{name}_bias": bias for name in "qkvo"} | {"qk_norm": True})


def _config(hf: dict, known: set[str], attention: dict[str, bool]) -> ModelConfig:
    check_keys(hf, known, ACCEPTED)
    return make_config(llama.swiglu_fields(hf) | attention | {"mlp_bias": False})


QWEN3_NAMES = llama.NAMES | {
    "layers.{i}.self_attn.q_norm.weight": "blocks.{i}.attn.q_norm.weight",
    "layers.{i}.self_attn.k_norm.weight": "blocks.{i}.attn.k_norm.weight",
}

QWEN2 = Family("Qwen2", qwen2_config, Layout(llama.NAMES, prefix="model."))
QWEN3 = Family("Qwen3", qwen3_config, Layout(QWEN3_NAMES, prefix="model."))
