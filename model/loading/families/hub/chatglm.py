"""ChatGLM2, ChatGLM3 and the first GLM-4 9B: GLM's parts under the names of their own code."""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, flag, integer, real
from model.loading.families.experts import join_gate, split_gate
from model.loading.families.fused import join_qkv, split_qkv
from model.loading.families.keys import Keys, biases

KEYS = Keys(
    sizes={
        "padded_vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "ffn_hidden_size": "d_mlp",
        "num_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "seq_length": ("n_ctx", 2048),
        "kv_channels": ("d_head", 128),
        "layernorm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {*KEYS.names, "multi_query_attention", "multi_query_group_num", "add_qkv_bias", "rope_ratio"}
KNOWN |= neutral_keys.keys_of(neutral_keys.CHATGLM)
ACCEPTED = {
    "add_bias_linear": (False,),
    "rmsnorm": (True,),
    "post_layer_norm": (True,),  # a norm before the output head
    "original_rope": (True,),
    "apply_residual_connection_post_layernorm": (False,),
    "quantization_bit": (0,),
    "pre_seq_len": (None,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a ChatGLM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = KEYS.read(hf)
    several = flag(hf, "multi_query_attention", False)
    more = {
        "n_kv_head": integer(hf, "multi_query_group_num", 1) if several else fields["n_head"],
        "norm": "rmsnorm",
        "norm_bias": False,
        "positions": "rope",
        "rope_pairs": "adjacent",
        "rotary_fraction": 0.5,
        "rope_theta": 10_000.0 * real(hf, "rope_ratio", 1.0),
        "mlp": "swiglu",
        "mlp_bias": False,
        "o_bias": False,
    }
    return make_config(fields | more | biases(flag(hf, "add_qkv_bias", False), "qkv"))


_LAYER = "encoder.layers.{i}"
NAMES = {
    "embedding.word_embeddings.weight": "embed.weight",
    f"{_LAYER}.input_layernorm.weight": "blocks.{i}.norm1.weight",
    f"{_LAYER}.post_attention_layernorm.weight": "blocks.{i}.norm2.weight",
    "encoder.final_layernorm.weight": "final_norm.weight",
    "output_layer.weight": "unembed.weight",
    "rotary_pos_emb.inv_freq": None,  # buffer
    **{
        f"{_LAYER}.self_attention.query_key_value.{kind}": Into(
            tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv"), split_qkv, join_qkv
        )
        for kind in ("weight", "bias")
    },
    f"{_LAYER}.self_attention.dense.weight": "blocks.{i}.attn.o.weight",
    f"{_LAYER}.mlp.dense_h_to_4h.weight": Into(
        ("blocks.{i}.mlp.gate.weight", "blocks.{i}.mlp.up.weight"), split_gate, join_gate
    ),
    f"{_LAYER}.mlp.dense_4h_to_h.weight": "blocks.{i}.mlp.down.weight",
}

CHATGLM = Family("ChatGLM", to_config, Layout(NAMES, prefix="transformer."))
