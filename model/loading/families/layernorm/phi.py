"""Phi-1, Phi-1.5 and Phi-2: LayerNorm, RoPE on a part of each head, attention and MLP in parallel behind one norm."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, told
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
        "max_position_embeddings": ("n_ctx", 2048),
        "layer_norm_eps": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {*KEYS.names, *ROPE_KEYS, "num_key_value_heads", "hidden_act", "qk_layernorm"}
_FIXED = {"positions": "rope", "parallel_residual": True, "shared_norm": True, "head_bias": True}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Phi config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    fields = KEYS.read(hf)
    more = {
        "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
        "mlp": choice(hf, "hidden_act", ACTIVATIONS, "gelu_new"),
        **({"qk_norm": True, "qk_norm_kind": "layernorm_bias"} if flag(hf, "qk_layernorm", False) else {}),
    }
    return make_config(fields | rope(hf, default_fraction=0.5) | _FIXED | biases(True) | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Phi config.json, the inverse of `to_config`."""
    turns = rope_told(c) | {"partial_rotary_factor": c.rotary_fraction}
    more = {"num_key_value_heads": c.n_kv_head, "hidden_act": name_of(ACTIVATIONS, c.mlp), "rope_parameters": turns}
    more["qk_layernorm"] = c.qk_norm
    return told(c) | KEYS.told(c) | more


NAMES = {
    "embed_tokens.weight": "embed.weight",
    **both("layers.{i}.input_layernorm", "blocks.{i}.norm1"),
    **both("layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **both("layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("layers.{i}.self_attn.dense", "blocks.{i}.attn.o"),
    **both("layers.{i}.self_attn.q_layernorm", "blocks.{i}.attn.q_norm"),
    **both("layers.{i}.self_attn.k_layernorm", "blocks.{i}.attn.k_norm"),
    **both("layers.{i}.mlp.fc1", "blocks.{i}.mlp.up"),
    **both("layers.{i}.mlp.fc2", "blocks.{i}.mlp.down"),
    **both("final_layernorm", "final_norm"),
    **both("lm_head", "unembed"),
    "layers.{i}.self_attn.rotary_emb.inv_freq": None,  # buffer of old files
}

PHI = Family("Phi", to_config, Layout(NAMES, prefix="model."), to_hf)
