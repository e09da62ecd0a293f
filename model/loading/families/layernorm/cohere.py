"""Command R and Aya (Cohere), and Command R7B (Cohere 2), which rotates q and k in the layers with a window alone."""

from collections.abc import Sequence

from torch import Tensor

from model.errors import UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    GATED_ACTIVATIONS,
    Family,
    check_keys,
    choice,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    mixers_told,
    name_of,
    optional,
    told,
)
from model.loading.families.keys import Keys, biases, whole_rope
from model.loading.families.rope import ROPE_KEYS, rope_told

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "intermediate_size": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "max_position_embeddings": ("n_ctx", 8192),
        "layer_norm_eps": ("norm_eps", 1e-5),
        "logit_scale": ("logit_multiplier", 0.0625),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
KNOWN = {*KEYS.names, *ROPE_KEYS, "num_key_value_heads", "hidden_act", "attention_bias"}
QK_NORM = {"qk_norm": True, "qk_norm_over": "each", "qk_norm_kind": "layernorm"}  # as in Command R+
KNOWN2 = {*KNOWN, "layer_types", "sliding_window", "sliding_window_pattern", "head_dim"}
KNOWN2 |= neutral_keys.keys_of(neutral_keys.COHERE2)
ACCEPTED = {"partial_rotary_factor": (1.0,)}
ACCEPTED2 = {
    "partial_rotary_factor": (1.0,),
    "rotary_pct": (1.0,),
    "order_of_interleaved_layers": ("local_attn_first",),
    "position_embedding_type": ("rope_gptj",),
    "use_embedding_sharing": (True,),
    "use_gated_activation": (True,),
    "use_parallel_block": (True,),
    "use_parallel_embedding": (False,),
}
_FIXED = {
    "positions": "rope",
    "rope_pairs": "adjacent",
    "norm_bias": False,
    "parallel_residual": True,
    "shared_norm": True,
    "mlp_bias": False,
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Cohere config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, {*KNOWN, "use_qk_norm"}, ACCEPTED)
    return make_config(_fields(hf, 500_000.0) | (QK_NORM if flag(hf, "use_qk_norm", False) else {}))


def cohere2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Cohere 2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN2, ACCEPTED2)
    fields = _fields(hf, 10_000.0)
    head = fields["d_model"] // max(fields["n_head"], 1)
    if integer(hf, "head_dim", head) != head:
        got, hint = f"head_dim = {hf['head_dim']}", say("Supported: {}.", str(head))
        raise UnsupportedModel("The model uses a feature that is not supported.", got, hint)
    every = integer(hf, "sliding_window_pattern", 4)
    default = ["sliding_attention" if (i + 1) % max(every, 1) else "full_attention" for i in range(depth(hf))]
    kinds = layer_kinds(hf, default)
    whole = tuple(layer for layer, kind in enumerate(kinds) if kind == "full_attention")
    return make_config(fields | mixers(kinds, optional(hf, "sliding_window", 4096)) | {"unrotated": whole})


def _fields(hf: dict, theta: float) -> dict:
    fields = KEYS.read(hf)
    more = {
        "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
        "mlp": choice(hf, "hidden_act", GATED_ACTIVATIONS, "silu"),
    }
    return fields | whole_rope(hf, theta) | _FIXED | biases(flag(hf, "attention_bias", False)) | more


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Cohere config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c),
        "num_key_value_heads": c.n_kv_head,
        "hidden_act": name_of(GATED_ACTIVATIONS, c.mlp),
        "attention_bias": c.q_bias,
        "use_qk_norm": c.qk_norm,
    }
    return told(c) | KEYS.told(c) | more


def cohere2_hf(c: ModelConfig) -> dict:
    """Return the values of a Cohere 2 config.json, the inverse of `cohere2_config`."""
    return {key: value for key, value in to_hf(c).items() if key != "use_qk_norm"} | mixers_told(c)


def flat(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return the gains of all heads on one axis. [n, E] -> [n E]"""
    return (tensor.flatten(),)


def by_head(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the gains of each head, the inverse of `flat`."""
    return parts[0].unflatten(0, (-1, config.d_head))


NAMES: Names = {theirs: ours for theirs, ours in llama.NAMES.items() if "post_attention_layernorm" not in theirs}
QK_NAMES: Names = {theirs: Into((str(ours),), flat, by_head) for theirs, ours in llama.QK_NORMS.items()}

COHERE = Family("Command R (Cohere)", to_config, Layout(NAMES | QK_NAMES, prefix="model."), to_hf)
COHERE2 = Family("Command R7B (Cohere 2)", cohere2_config, Layout(NAMES, prefix="model."), cohere2_hf)
