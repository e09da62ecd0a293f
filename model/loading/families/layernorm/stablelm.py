"""StableLM: Llama with LayerNorm and RoPE on a part of each head; some models compute attention and MLP in parallel."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import llama
from model.loading.families.common import GATED_ACTIVATIONS, Family, check_keys, choice, flag, name_of, told
from model.loading.families.keys import Keys, biases
from model.loading.families.layernorm.cohere import QK_NORM
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
        "num_key_value_heads": ("n_kv_head", 32),
        "max_position_embeddings": ("n_ctx", 4096),
        "layer_norm_eps": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {*KEYS.names, *ROPE_KEYS, "hidden_act", "use_qkv_bias", "use_parallel_residual", "qk_layernorm"}
_FIXED = {"positions": "rope", "mlp_bias": False, "o_bias": False}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a StableLM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    parallel = flag(hf, "use_parallel_residual", False)
    more = {
        "mlp": choice(hf, "hidden_act", GATED_ACTIVATIONS, "silu"),
        "parallel_residual": parallel,
        "shared_norm": parallel,
        **(QK_NORM if flag(hf, "qk_layernorm", False) else {}),  # as in StableLM 2 12B
    }
    turns = rope(hf, default_fraction=0.25)
    return make_config(KEYS.read(hf) | turns | biases(flag(hf, "use_qkv_bias", False), "qkv") | _FIXED | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a StableLM config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c) | {"partial_rotary_factor": c.rotary_fraction},
        "hidden_act": name_of(GATED_ACTIVATIONS, c.mlp),
        "use_qkv_bias": c.q_bias,
        "use_parallel_residual": c.parallel_residual,
        "qk_layernorm": c.qk_norm,
    }
    return told(c) | KEYS.told(c) | more


NAMES = llama.NAMES | {
    "layers.{i}.input_layernorm.bias": "blocks.{i}.norm1.bias",
    "layers.{i}.post_attention_layernorm.bias": "blocks.{i}.norm2.bias",
    **both("norm", "final_norm"),
    "layers.{i}.self_attn.q_layernorm.norms.{e}.weight": "blocks.{i}.attn.q_norm.weight",
    "layers.{i}.self_attn.k_layernorm.norms.{e}.weight": "blocks.{i}.attn.k_norm.weight",
}

STABLELM = Family("StableLM", to_config, Layout(NAMES, prefix="model."), to_hf)
