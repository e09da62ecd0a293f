"""Llama and models with its architecture, such as SmolLM2: RMSNorm, RoPE, SwiGLU, grouped-query attention."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import (
    ROPE_KEYS,
    Family,
    check_keys,
    check_layer_types,
    choice,
    flag,
    integer,
    real,
    rope,
)

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "intermediate_size": "d_mlp",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_ctx",
}
KNOWN = {
    *SIZES,
    *ROPE_KEYS,
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "tie_word_embeddings",
    "layer_types",
    "attention_bias",
    "mlp_bias",
    *neutral_keys.keys_of(neutral_keys.LLAMA),
}
ACCEPTED = {
    "rope_interleaved": (False,),
    "partial_rotary_factor": (1.0,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Llama config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    attention_bias, mlp_bias = flag(hf, "attention_bias", False), flag(hf, "mlp_bias", False)
    biases = {f"{name}_bias": attention_bias for name in "qkvo"} | {"mlp_bias": mlp_bias}
    return make_config(swiglu_fields(hf) | biases)


def swiglu_fields(hf: dict) -> dict:
    """Return the fields common to Llama and Qwen configs, without biases."""
    check_layer_types(hf)
    fields = {ours: integer(hf, theirs) for theirs, ours in SIZES.items()}
    head = {"d_head": integer(hf, "head_dim")} if hf.get("head_dim") is not None else {}
    rotary = rope(hf)
    # The families differ in which part of a head would be rotated, so partial rotation is rejected.
    check_keys({"partial_rotary_factor": rotary["rotary_fraction"]}, (), {"partial_rotary_factor": (1.0,)})
    return (
        fields
        | head
        | rotary
        | {
            "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
            "norm": "rmsnorm",
            "norm_bias": False,
            "norm_eps": real(hf, "rms_norm_eps", 1e-6),
            "positions": "rope",
            "mlp": choice(hf, "hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu"),
            "tie_embeddings": flag(hf, "tie_word_embeddings", False),
        }
    )


def _both(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}


NAMES = {
    "embed_tokens.weight": "embed.weight",
    "layers.{i}.input_layernorm.weight": "blocks.{i}.norm1.weight",
    **_both("layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **_both("layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **_both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **_both("layers.{i}.self_attn.o_proj", "blocks.{i}.attn.o"),
    "layers.{i}.post_attention_layernorm.weight": "blocks.{i}.norm2.weight",
    **_both("layers.{i}.mlp.gate_proj", "blocks.{i}.mlp.gate"),
    **_both("layers.{i}.mlp.up_proj", "blocks.{i}.mlp.up"),
    **_both("layers.{i}.mlp.down_proj", "blocks.{i}.mlp.down"),
    "norm.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
    # Buffer of the RoPE frequencies in old files.
    "layers.{i}.self_attn.rotary_emb.inv_freq": None,
}

LLAMA = Family("Llama", to_config, Layout(NAMES, prefix="model."))
