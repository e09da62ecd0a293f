"""Mistral (Llama with a sliding window), Ministral (a window in some layers), Ministral 3, and Mixtral with experts."""

from collections.abc import Mapping

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, depth, integer, layer_kinds, mixers, mixers_told, optional
from model.loading.families.experts import expert_fields, expert_names, experts_told
from model.loading.families.rope import rope

KNOWN = llama.COMMON | {"sliding_window"}


def mistral_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Mistral config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | neutral_keys.keys_of(neutral_keys.MISTRAL), {})
    return make_config(llama.swiglu_fields(hf, kv=8) | llama.windowed(hf, optional(hf, "sliding_window", 4096)))


def mistral_hf(c: ModelConfig) -> dict:
    """Return the values of a Mistral config.json, the inverse of `mistral_config`."""
    return llama.swiglu_told(c) | {"sliding_window": mixers_told(c)["sliding_window"]}


def ministral_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Ministral config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN, {})
    window = optional(hf, "sliding_window", 4096)
    kind = "full_attention" if window is None else "sliding_attention"
    kinds = layer_kinds(hf, [kind] * depth(hf))
    return make_config(llama.swiglu_fields(hf, kv=8) | mixers(kinds, window))


def ministral_hf(c: ModelConfig) -> dict:
    """Return the values of a Ministral config.json, the inverse of `ministral_config`."""
    return llama.swiglu_told(c) | mixers_told(c)


def ministral3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Ministral 3 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.

    Its queries grow with the position from the context length of the first training on (llama_4_scaling_beta); up to
    there, their factor is 1. So `n_ctx` is at most that length.
    """
    check_keys(hf, KNOWN, {})
    given, n_ctx = hf.get("rope_parameters"), integer(hf, "max_position_embeddings", 262_144)
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key != "max_position_embeddings"}
        if given.pop("llama_4_scaling_beta", None) is not None:
            n_ctx = min(n_ctx, integer(given, "original_max_position_embeddings"))
    rotary = rope({**hf, "rope_parameters": given}, default_theta=1_000_000.0)
    fields = llama.swiglu_fields({"head_dim": 128, **hf}, kv=8, eps=1e-5, rotary=rotary)
    return make_config(fields | llama.windowed(hf, optional(hf, "sliding_window", None)) | {"n_ctx": n_ctx})


MIXTRAL_KEYS = KNOWN | {"num_local_experts", "num_experts_per_tok"} | neutral_keys.keys_of(neutral_keys.EXPERTS)


def mixtral_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Mixtral config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, MIXTRAL_KEYS, {})
    fields = llama.swiglu_fields(hf, kv=8, eps=1e-5, theta=1_000_000.0)
    experts = expert_fields(hf, "num_local_experts", 8, 2, None, fields["d_mlp"])
    return make_config(fields | experts | llama.windowed(hf, optional(hf, "sliding_window", None)))


def mixtral_hf(c: ModelConfig) -> dict:
    """Return the values of a Mixtral config.json, the inverse of `mixtral_config`."""
    return mistral_hf(c) | experts_told(c, "num_local_experts") | {"intermediate_size": c.d_expert}


MIXTRAL_NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs},
    **expert_names(("w1", "w3", "w2"), "layers.{i}.block_sparse_moe"),
}

MISTRAL = Family("Mistral", mistral_config, llama.LAYOUT, mistral_hf)
MINISTRAL = Family("Ministral", ministral_config, llama.LAYOUT, ministral_hf)
MINISTRAL3 = Family("Ministral 3", ministral3_config, llama.LAYOUT)
MIXTRAL = Family("Mixtral", mixtral_config, Layout(MIXTRAL_NAMES, prefix="model."), mixtral_hf)
