"""StarCoder2: LayerNorm, RoPE, grouped-query attention through a window, and biases everywhere."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, told
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
        "num_key_value_heads": ("n_kv_head", 2),
        "max_position_embeddings": ("n_ctx", 4096),
        "norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
KNOWN = {
    *KEYS.names,
    *ROPE_KEYS,
    "hidden_act",
    "use_bias",
    "sliding_window",
    *neutral_keys.keys_of(neutral_keys.STARCODER2),
}
ACCEPTED = {
    "partial_rotary_factor": (1.0,),
    "mlp_type": ("default",),
    "norm_type": ("layer_norm",),
    "scale_attn_weights": (True,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a StarCoder2 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    bias = flag(hf, "use_bias", True)
    fields = KEYS.read(hf) | whole_rope(hf) | biases(bias)
    fields |= {"positions": "rope", "mlp_bias": bias, "mlp": choice(hf, "hidden_act", ACTIVATIONS, "gelu_pytorch_tanh")}
    if hf.get("sliding_window") is not None:
        fields |= {"mixer": "sliding_window", "window": integer(hf, "sliding_window")}
    return make_config(fields)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a StarCoder2 config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c),
        "hidden_act": name_of(ACTIVATIONS, c.mlp),
        "use_bias": c.q_bias,
        "sliding_window": c.window if c.mixer == "sliding_window" else None,
    }
    return told(c) | KEYS.told(c) | more


NAMES = {
    "embed_tokens.weight": "embed.weight",
    **both("layers.{i}.input_layernorm", "blocks.{i}.norm1"),
    **both("layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **both("layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("layers.{i}.self_attn.o_proj", "blocks.{i}.attn.o"),
    **both("layers.{i}.post_attention_layernorm", "blocks.{i}.norm2"),
    **both("layers.{i}.mlp.c_fc", "blocks.{i}.mlp.up"),
    **both("layers.{i}.mlp.c_proj", "blocks.{i}.mlp.down"),
    **both("norm", "final_norm"),
    "lm_head.weight": "unembed.weight",
    "layers.{i}.self_attn.rotary_emb.inv_freq": None,  # buffer of old files
}

STARCODER2 = Family("StarCoder2", to_config, Layout(NAMES, prefix="model."), to_hf)
