"""GPT-BigCode, the architecture of StarCoder: GPT-2 with multi-query attention."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, told
from model.loading.families.fused import join_groups, qkv, split_groups
from model.loading.families.keys import Keys, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "n_embd": "d_model", "n_layer": "n_layer", "n_head": "n_head"},
    others={
        "n_positions": ("n_ctx", 1024),
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
KNOWN = {
    *KEYS.names,
    "multi_query",
    "n_inner",
    "activation_function",
    "scale_attn_weights",
    "num_key_value_heads",  # derived from multi_query, and not read
    *neutral_keys.keys_of(neutral_keys.GPT2 | neutral_keys.GPT_BIGCODE),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GPT-BigCode config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, {})
    fields = KEYS.read(hf)
    more = {
        "n_kv_head": 1 if flag(hf, "multi_query", True) else fields["n_head"],
        "d_mlp": integer(hf, "n_inner", 4 * fields["d_model"]),
        "mlp": choice(hf, "activation_function", ACTIVATIONS, "gelu_pytorch_tanh"),
        "score_multiplier": None if flag(hf, "scale_attn_weights", True) else 1.0,
    }
    return make_config(fields | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GPT-BigCode config.json, the inverse of `to_config`."""
    more = {
        "multi_query": c.n_kv_head == 1,
        "n_inner": c.d_mlp,
        "activation_function": name_of(ACTIVATIONS, c.mlp),
        "scale_attn_weights": c.score_multiplier is None,
    }
    return told(c) | KEYS.told(c) | more


NAMES = {
    "wte.weight": "embed.weight",
    "wpe.weight": "pos_embed.weight",
    **both("h.{i}.ln_1", "blocks.{i}.norm1"),
    "h.{i}.attn.c_attn.weight": qkv("weight", split_groups, join_groups),
    "h.{i}.attn.c_attn.bias": qkv("bias", split_groups, join_groups),
    **both("h.{i}.attn.c_proj", "blocks.{i}.attn.o"),
    **both("h.{i}.ln_2", "blocks.{i}.norm2"),
    **both("h.{i}.mlp.c_fc", "blocks.{i}.mlp.up"),
    **both("h.{i}.mlp.c_proj", "blocks.{i}.mlp.down"),
    **both("ln_f", "final_norm"),
    "lm_head.weight": "unembed.weight",
    # Buffers of the causal mask in old files.
    "h.{i}.attn.bias": None,
    "h.{i}.attn.masked_bias": None,
}

GPT_BIGCODE = Family("GPT-BigCode (StarCoder)", to_config, Layout(NAMES, prefix="transformer."), to_hf)
