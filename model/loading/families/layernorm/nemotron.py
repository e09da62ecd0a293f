"""Nemotron and Minitron: LayerNorm whose gain is stored less 1, RoPE on a part of each head, and squared ReLU.

Also Jais 2: the same with whole gains, RoPE on whole heads, and biases.
"""

from dataclasses import replace

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama
from model.loading.families.common import Family, check_keys, choice, flag, integer, name_of, told
from model.loading.families.gemma import add_one, less_one
from model.loading.families.keys import Keys, biases
from model.loading.families.rope import ROPE_KEYS, rope, rope_told

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "intermediate_size": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "max_position_embeddings": ("n_ctx", 4096),
        "norm_eps": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
        "mlp_bias": ("mlp_bias", False),
    },
)
_ACTIVATIONS = {"relu2": "relu2", "relu": "relu", "silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}
KNOWN = {*KEYS.names, *ROPE_KEYS, "num_key_value_heads", "head_dim", "hidden_act", "attention_bias", "rope_percent"}
KNOWN |= {"rope_percentage"}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Nemotron config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    fields = KEYS.read(hf)
    turns = rope(hf, default_fraction=0.5)
    # The names of the first files, which transformers does not read.
    said = {key: hf.get(key) for key in ("rope_percent", "rope_percentage")}
    check_keys(said, (), dict.fromkeys(said, (turns["rotary_fraction"],)))
    more = {
        "positions": "rope",
        "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
        "mlp": choice(hf, "hidden_act", _ACTIVATIONS, "relu2"),
    }
    head = {"d_head": integer(hf, "head_dim")} if hf.get("head_dim") is not None else {}
    return make_config(fields | turns | biases(flag(hf, "attention_bias", False)) | more | head)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Nemotron config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c) | {"partial_rotary_factor": c.rotary_fraction},
        "num_key_value_heads": c.n_kv_head,
        "head_dim": c.d_head,
        "hidden_act": name_of(_ACTIVATIONS, c.mlp),
        "attention_bias": c.q_bias,
    }
    return told(c) | KEYS.told(c) | more


def jais2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Jais 2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, {*KNOWN, "layer_norm_eps"} - {"norm_eps"}, {"partial_rotary_factor": (1.0,)})
    given = {key: value for key, value in hf.items() if key != "layer_norm_eps"} | {
        "norm_eps": hf.get("layer_norm_eps")
    }
    defaults = {"attention_bias": True, "mlp_bias": True, "max_position_embeddings": 8192}
    return replace(to_config(defaults | given | {"partial_rotary_factor": 1.0}), mlp_bias=flag(hf, "mlp_bias", True))


def jais2_hf(c: ModelConfig) -> dict:
    """Return the values of a Jais 2 config.json, the inverse of `jais2_config`."""
    values = to_hf(c)
    return values | {"layer_norm_eps": values.pop("norm_eps"), "rope_parameters": rope_told(c)}


_NORMS = {"layers.{i}.input_layernorm": "blocks.{i}.norm1", "layers.{i}.post_attention_layernorm": "blocks.{i}.norm2"}
_NORMS |= {"norm": "final_norm"}
NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if "gate_proj" not in theirs},
    **{f"{theirs}.weight": Into((f"{ours}.weight",), add_one, less_one) for theirs, ours in _NORMS.items()},
    **{f"{theirs}.bias": f"{ours}.bias" for theirs, ours in _NORMS.items()},
}

JAIS2_NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if "gate_proj" not in theirs},
    **{f"{theirs}.{kind}": f"{ours}.{kind}" for theirs, ours in _NORMS.items() for kind in ("weight", "bias")},
}

JAIS2 = Family("Jais 2", jais2_config, Layout(JAIS2_NAMES, prefix="model."), jais2_hf)
NEMOTRON = Family("Nemotron", to_config, Layout(NAMES, prefix="model."), to_hf)
