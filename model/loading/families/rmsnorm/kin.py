"""Close kin of Llama: Seed-OSS (biases on q, k and v), ERNIE 4.5 (RoPE on adjacent pairs), EXAONE 4 (norms after the
sublayers and of q and k, full attention without RoPE), CWM (windows in three of four layers), IQuest-Coder and
InternLM3.
"""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    Family,
    check_keys,
    depth,
    flag,
    layer_kinds,
    mixers,
    mixers_told,
    optional,
)
from model.loading.families.keys import biases, renamed

SEED_KNOWN = llama.KNOWN | {"attention_out_bias"} | neutral_keys.keys_of(neutral_keys.SEED_OSS)
ERNIE_KNOWN = llama.COMMON | {"use_bias"}
EXAONE_KNOWN = llama.COMMON | {"sliding_window", "sliding_window_pattern"}
_OFF = {"partial_rotary_factor": (1.0,)}


def seed_oss_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Seed-OSS config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, SEED_KNOWN, llama.ACCEPTED)
    more = biases(flag(hf, "attention_bias", True), "qkv") | biases(flag(hf, "attention_out_bias", False), "o")
    fields = llama.swiglu_fields({"head_dim": 128, **hf}, kv=8) | llama.full(hf)
    return make_config(fields | more | {"mlp_bias": flag(hf, "mlp_bias", False)})


def seed_oss_hf(c: ModelConfig) -> dict:
    """Return the values of a Seed-OSS config.json, the inverse of `seed_oss_config`."""
    return llama.to_hf(c) | {"attention_out_bias": c.o_bias}


def ernie_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an ERNIE 4.5 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, ERNIE_KNOWN, _OFF | {"compression_ratio": (1.0,)})
    bias = flag(hf, "use_bias", False)
    fields = llama.swiglu_fields({"head_dim": 128, **hf}, kv=2, eps=1e-5, tied=True, theta=500_000.0)
    return make_config(fields | biases(bias) | llama.full(hf) | {"mlp_bias": bias, "rope_pairs": "adjacent"})


def ernie_hf(c: ModelConfig) -> dict:
    """Return the values of an ERNIE 4.5 config.json, the inverse of `ernie_config`."""
    return llama.swiglu_told(c) | {"use_bias": c.q_bias}


def exaone4_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an EXAONE 4 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, EXAONE_KNOWN, _OFF)
    window, n_layer = optional(hf, "sliding_window", 4096), depth(hf)
    letters = hf.get("sliding_window_pattern", 4)
    if isinstance(letters, str) and hf.get("layer_types") is None:
        raise CheckpointError("The config lacks a key.", "layer_types", "Fetch the checkpoint again.")
    every = letters if isinstance(letters, int) and not isinstance(letters, bool) and letters > 0 else n_layer + 1
    slides = [window is not None and (layer + 1) % every != 0 for layer in range(n_layer)]
    kinds = layer_kinds(hf, ["sliding_attention" if each else "full_attention" for each in slides])
    full = tuple(layer for layer, kind in enumerate(kinds) if kind == "full_attention") if window is not None else ()
    fields = llama.swiglu_fields(hf, kv=32, eps=1e-5) | mixers(kinds, window)
    return make_config(fields | {"norm_placement": "output", "qk_norm": True, "unrotated": full})


def exaone4_hf(c: ModelConfig) -> dict:
    """Return the values of an EXAONE 4 config.json, the inverse of `exaone4_config`."""
    return llama.swiglu_told(c) | mixers_told(c)


_INTERNLM3 = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}


def internlm3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an InternLM3 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    hf = renamed(hf, _INTERNLM3)
    return llama.to_config({"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, **hf})


CWM_KNOWN = llama.COMMON | {"mlp_bias", "sliding_window"} | neutral_keys.keys_of(neutral_keys.LLAMA)
_CWM_ROPE = {"rope_type": "llama3", "rope_theta": 1_000_000.0, "factor": 16.0, "low_freq_factor": 1.0}
_CWM_ROPE |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def cwm_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a CWM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, CWM_KNOWN, _OFF)
    hf = {"head_dim": 128, **hf}
    if hf.get("rope_parameters") is None and hf.get("rope_scaling") is None:
        hf["rope_parameters"] = _CWM_ROPE
    window = optional(hf, "sliding_window", 8192)
    kinds = layer_kinds(hf, ["sliding_attention" if layer % 4 else "full_attention" for layer in range(depth(hf))])
    fields = llama.swiglu_fields(hf, kv=8, eps=1e-5, theta=1_000_000.0) | mixers(kinds, window)
    return make_config(fields | {"mlp_bias": flag(hf, "mlp_bias", False)})


def cwm_hf(c: ModelConfig) -> dict:
    """Return the values of a CWM config.json, the inverse of `cwm_config`."""
    # transformers does not take a config without these tokens.
    return llama.swiglu_told(c) | mixers_told(c) | {"mlp_bias": c.mlp_bias, "bos_token_id": 0}


def iquest_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an IQuest-Coder config.json. Raises CheckpointError or UnsupportedModel with the name
    of the key.
    """
    off = {"clip_qkv", "use_sliding_window", "sliding_window", "max_window_layers"}
    check_keys({key: hf[key] for key in off & hf.keys()}, off, {"clip_qkv": (), "use_sliding_window": (False,)})
    given = {key: value for key, value in hf.items() if key not in off}
    return llama.to_config({"head_dim": 128, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, **given})


EXAONE4_NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if "layernorm" not in theirs},
    **llama.QK_NORMS,
    "layers.{i}.post_attention_layernorm.weight": "blocks.{i}.after1.weight",
    "layers.{i}.post_feedforward_layernorm.weight": "blocks.{i}.after2.weight",
}

SEED_OSS = Family("Seed-OSS", seed_oss_config, llama.LAYOUT, seed_oss_hf)
ERNIE = Family("ERNIE 4.5", ernie_config, llama.LAYOUT, ernie_hf)
EXAONE4 = Family("EXAONE 4", exaone4_config, Layout(EXAONE4_NAMES, prefix="model."), exaone4_hf)
CWM = Family("CWM", cwm_config, llama.LAYOUT, cwm_hf)
IQUEST = Family("IQuest-Coder", iquest_config, llama.LAYOUT, llama.to_hf)
INTERNLM3 = Family("InternLM3", internlm3_config, llama.LAYOUT, llama.to_hf)
