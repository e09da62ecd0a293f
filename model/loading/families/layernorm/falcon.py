"""Falcon: attention and MLP in parallel behind one or two norms, with one KV head or groups of them.

Falcon RW has ALiBi, as it was trained: slopes times positions in bfloat16. transformers' fused attention adds it once,
as the models were trained; its eager attention, twice.
"""

from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, told
from model.loading.families.fused import join_groups, qkv, split_groups
from model.loading.families.keys import Keys, biases, renamed, whole_rope
from model.loading.families.rope import ROPE_KEYS, rope_told

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "max_position_embeddings": ("n_ctx", 2048),
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
KNOWN = {
    *KEYS.names,
    *ROPE_KEYS,
    "num_kv_heads",
    "multi_query",
    "new_decoder_architecture",
    "parallel_attn",
    "num_ln_in_parallel_attn",
    "bias",
    "ffn_hidden_size",
    "activation",
    "alibi",
    *neutral_keys.keys_of(neutral_keys.FALCON),
}
ACCEPTED = {
    "apply_residual_connection_post_layernorm": (False,),
    "partial_rotary_factor": (1.0,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Falcon config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, {"n_embed": "hidden_size"})
    check_keys(hf, KNOWN, ACCEPTED)
    fields = KEYS.read(hf)
    new, parallel = flag(hf, "new_decoder_architecture", False), flag(hf, "parallel_attn", True)
    norms = integer(hf, "num_ln_in_parallel_attn", 2 if new else 1)
    if norms not in (1, 2) or (norms == 2 and not new) or (new and not parallel):
        got = f"new_decoder_architecture {new}, parallel_attn {parallel}, num_ln_in_parallel_attn {norms}"
        hint = "In transformers, no model computes this combination."
        raise UnsupportedModel("The model uses a feature that is not supported.", got, hint)
    if new:
        kv = integer(hf, "num_kv_heads", fields["n_head"])
    else:
        kv = 1 if flag(hf, "multi_query", True) else fields["n_head"]
    bias, alibi = flag(hf, "bias", False), flag(hf, "alibi", False)
    more = {
        **({"positions": "alibi", "alibi_rounded": True} if alibi else {"positions": "rope"}),
        "n_kv_head": kv,
        "d_mlp": integer(hf, "ffn_hidden_size", 4 * fields["d_model"]),
        "mlp": choice(hf, "activation", ACTIVATIONS, "gelu"),
        "mlp_bias": bias,
        "parallel_residual": parallel,
        "shared_norm": parallel and norms == 1,
    }
    return make_config(fields | ({} if alibi else whole_rope(hf)) | biases(bias) | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Falcon config.json, the inverse of `to_config`."""
    new = c.parallel_residual and (c.n_kv_head not in (1, c.n_head) or not c.shared_norm)
    more = {
        "alibi": c.positions == "alibi",
        "rope_parameters": None if c.positions == "alibi" else rope_told(c),
        "num_kv_heads": c.n_kv_head,
        "multi_query": c.n_kv_head == 1,
        "new_decoder_architecture": new,
        "parallel_attn": c.parallel_residual,
        "num_ln_in_parallel_attn": (1 if c.shared_norm else 2) if new else None,
        "bias": c.q_bias,
        "ffn_hidden_size": c.d_mlp,
        "activation": name_of(ACTIVATIONS, c.mlp),
    }
    return told(c) | KEYS.told(c) | more


NAMES = {
    "word_embeddings.weight": "embed.weight",
    **both("h.{i}.input_layernorm", "blocks.{i}.norm1"),
    **both("h.{i}.ln_attn", "blocks.{i}.norm1"),
    "h.{i}.self_attention.query_key_value.weight": qkv("weight", split_groups, join_groups),
    "h.{i}.self_attention.query_key_value.bias": qkv("bias", split_groups, join_groups),
    **both("h.{i}.self_attention.dense", "blocks.{i}.attn.o"),
    **both("h.{i}.post_attention_layernorm", "blocks.{i}.norm2"),
    **both("h.{i}.ln_mlp", "blocks.{i}.norm2"),
    **both("h.{i}.mlp.dense_h_to_4h", "blocks.{i}.mlp.up"),
    **both("h.{i}.mlp.dense_4h_to_h", "blocks.{i}.mlp.down"),
    **both("ln_f", "final_norm"),
    "lm_head.weight": "unembed.weight",
    "h.{i}.self_attention.rotary_emb.inv_freq": None,  # buffer of old files
}

FALCON = Family("Falcon", to_config, Layout(NAMES, prefix="transformer."), to_hf)
