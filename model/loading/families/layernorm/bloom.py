"""BLOOM: ALiBi, a norm of the embeddings, and one projection for q, k and v that is interleaved by head."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, told
from model.loading.families.fused import join_groups, qkv, split_groups
from model.loading.families.keys import Keys, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "hidden_size": "d_model", "n_layer": "n_layer", "n_head": "n_head"},
    others={
        "seq_length": ("n_ctx", 2048),  # of the training texts; ALiBi has no limit, and transformers does not read it
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
ALIASES = {"n_embed": "hidden_size", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
KNOWN = {*KEYS.names, *neutral_keys.keys_of(neutral_keys.BLOOM)}
ACCEPTED = {
    "apply_residual_connection_post_layernorm": (False,),
    "slow_but_exact": (False,),  # with pretraining_tp, transformers then leaves out the biases of two projections
}
_FIXED = {"positions": "alibi", "embed_norm": True, "mlp": "gelu_tanh"}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a BLOOM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, ACCEPTED)
    return make_config(KEYS.read(hf) | _FIXED)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a BLOOM config.json, the inverse of `to_config`."""
    return told(c) | KEYS.told(c)


NAMES = {
    "word_embeddings.weight": "embed.weight",
    **both("word_embeddings_layernorm", "embed_norm"),
    **both("h.{i}.input_layernorm", "blocks.{i}.norm1"),
    "h.{i}.self_attention.query_key_value.weight": qkv("weight", split_groups, join_groups),
    "h.{i}.self_attention.query_key_value.bias": qkv("bias", split_groups, join_groups),
    **both("h.{i}.self_attention.dense", "blocks.{i}.attn.o"),
    **both("h.{i}.post_attention_layernorm", "blocks.{i}.norm2"),
    **both("h.{i}.mlp.dense_h_to_4h", "blocks.{i}.mlp.up"),
    **both("h.{i}.mlp.dense_4h_to_h", "blocks.{i}.mlp.down"),
    **both("ln_f", "final_norm"),
    "lm_head.weight": "unembed.weight",
}

BLOOM = Family("BLOOM", to_config, Layout(NAMES, prefix="transformer."), to_hf)
