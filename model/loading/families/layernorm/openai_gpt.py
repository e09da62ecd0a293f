"""The first GPT: learned positions, and LayerNorm after each sublayer."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, both, make_config
from model.loading.families import gpt2, neutral_keys
from model.loading.families.common import Family, check_keys, choice, integer, name_of, told
from model.loading.families.fused import qkv
from model.loading.families.keys import Keys, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "n_embd": "d_model", "n_layer": "n_layer", "n_head": "n_head"},
    others={
        "n_positions": ("n_ctx", 512),
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
ALIASES = {
    "max_position_embeddings": "n_positions",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
KNOWN = {*KEYS.names, "n_ctx", "afn", *neutral_keys.keys_of(neutral_keys.GPT2)}
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a config.json of the first GPT. Raises CheckpointError or UnsupportedModel with the
    name of the key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, {})
    fields = KEYS.read(hf)
    if integer(hf, "n_ctx", fields["n_ctx"]) != fields["n_ctx"]:
        got = f"n_ctx {hf['n_ctx']}, n_positions {fields['n_ctx']}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")
    return make_config(fields | {"norm_placement": "post", "mlp": choice(hf, "afn", ACTIVATIONS, "gelu")})


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a config.json of the first GPT, the inverse of `to_config`."""
    return told(c) | KEYS.told(c) | {"afn": name_of(ACTIVATIONS, c.mlp)}


def _turned(ours: str) -> Into:
    return Into((ours,), gpt2.transpose, gpt2.transpose_back)


NAMES = {
    "tokens_embed.weight": "embed.weight",
    "positions_embed.weight": "pos_embed.weight",
    "h.{i}.attn.c_attn.weight": qkv("weight", gpt2.split_qkv, gpt2.join_qkv),
    "h.{i}.attn.c_attn.bias": qkv("bias", gpt2.split_qkv, gpt2.join_qkv),
    "h.{i}.attn.c_proj.weight": _turned("blocks.{i}.attn.o.weight"),
    "h.{i}.attn.c_proj.bias": "blocks.{i}.attn.o.bias",
    **both("h.{i}.ln_1", "blocks.{i}.norm1"),
    "h.{i}.mlp.c_fc.weight": _turned("blocks.{i}.mlp.up.weight"),
    "h.{i}.mlp.c_fc.bias": "blocks.{i}.mlp.up.bias",
    "h.{i}.mlp.c_proj.weight": _turned("blocks.{i}.mlp.down.weight"),
    "h.{i}.mlp.c_proj.bias": "blocks.{i}.mlp.down.bias",
    **both("h.{i}.ln_2", "blocks.{i}.norm2"),
    "lm_head.weight": "unembed.weight",
    # Buffers of old files.
    "h.{i}.attn.bias": None,
    "position_ids": None,
}

OPENAI_GPT = Family("GPT-1", to_config, Layout(NAMES, prefix="transformer."), to_hf)
