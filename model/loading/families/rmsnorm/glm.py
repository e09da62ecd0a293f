"""GLM-4: RoPE on adjacent pairs of half of each head, and gate and linear branch fused; GLM-4-0414 has norms after the
sublayers, too.
"""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama
from model.loading.families.common import GATED_ACTIVATIONS, Family, check_keys, choice, flag, name_of, told
from model.loading.families.experts import join_gate, split_gate
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
        "num_key_value_heads": ("n_kv_head", 2),
        "head_dim": ("d_head", 128),
        "max_position_embeddings": ("n_ctx", 131_072),
        "rms_norm_eps": ("norm_eps", 1.5625e-7),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {*KEYS.names, *ROPE_KEYS, "hidden_act", "attention_bias"}
_FIXED = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "rope_pairs": "adjacent",
    "o_bias": False,
    "mlp_bias": False,
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GLM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    return make_config(_fields(hf))


def glm4_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GLM-4-0414 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    return make_config(_fields(hf) | {"norm_placement": "sandwich"})


def _fields(hf: dict) -> dict:
    check_keys(hf, KNOWN, {})
    mlp = {"mlp": choice(hf, "hidden_act", GATED_ACTIVATIONS, "silu")}
    turns, bias = rope(hf, default_fraction=0.5), biases(flag(hf, "attention_bias", True), "qkv")
    return KEYS.read(hf) | turns | bias | mlp | _FIXED


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GLM or GLM-4-0414 config.json, the inverse of `to_config` and `glm4_config`."""
    more = {
        "rope_parameters": rope_told(c) | {"partial_rotary_factor": c.rotary_fraction},
        "hidden_act": name_of(GATED_ACTIVATIONS, c.mlp),
        "attention_bias": c.q_bias,
    }
    return told(c) | KEYS.told(c) | more


_GATE_UP = Into(tuple(f"blocks.{{i}}.mlp.{part}.weight" for part in ("gate", "up")), split_gate, join_gate)
NAMES = {theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs} | {
    "layers.{i}.mlp.gate_up_proj.weight": _GATE_UP,
    "layers.{i}.mlp.down_proj.weight": "blocks.{i}.mlp.down.weight",
}
GLM4_NAMES = NAMES | {
    "layers.{i}.post_self_attn_layernorm.weight": "blocks.{i}.after1.weight",
    "layers.{i}.post_mlp_layernorm.weight": "blocks.{i}.after2.weight",
}

GLM = Family("GLM-4", to_config, Layout(NAMES, prefix="model."), to_hf)
GLM4 = Family("GLM-4-0414", glm4_config, Layout(GLM4_NAMES, prefix="model."), to_hf)
