"""MPT: ALiBi, no biases, and q, k and v clamped in some models."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, real, told
from model.loading.families.fused import join_qkv, qkv, split_qkv
from model.loading.families.keys import Keys, biases, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "d_model": "d_model", "n_layers": "n_layer", "n_heads": "n_head"},
    others={
        "max_seq_len": ("n_ctx", 2048),
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
ALIASES = {"num_attention_heads": "n_heads", "hidden_size": "d_model", "num_hidden_layers": "n_layers"}
KNOWN = {*KEYS.names, "attn_config", *neutral_keys.keys_of(neutral_keys.MPT)}
ACCEPTED = {
    "expansion_ratio": (4,),
    "no_bias": (True,),
    "norm_type": ("low_precision_layernorm", "layernorm"),
}
ATTENTION = {"clip_qkv", "softmax_scale", *neutral_keys.keys_of(neutral_keys.MPT_ATTENTION)}
ATTENTION_ACCEPTED = {
    "attn_type": ("multihead_attention",),
    "qk_ln": (False,),
    "prefix_lm": (False,),
    "attn_uses_sequence_id": (False,),
    "alibi": (True,),
    "alibi_bias_max": (8,),
}
_FIXED = {"positions": "alibi", "norm_bias": False, "mlp": "gelu", "mlp_bias": False}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an MPT config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, ACCEPTED)
    inner = hf.get("attn_config") or {}
    if not isinstance(inner, dict):
        raise CheckpointError("A key of the config must be an object.", f"attn_config = {inner!r}"[:80], _CORRECT)
    check_keys(inner, ATTENTION, ATTENTION_ACCEPTED)
    fields = KEYS.read(hf) | _FIXED | biases(False)
    if inner.get("clip_qkv"):  # 0 and null: no limit
        fields["qkv_limit"] = real(inner, "clip_qkv")
    if inner.get("softmax_scale") is not None:
        fields["score_multiplier"] = real(inner, "softmax_scale")
    return make_config(fields)


_CORRECT = "Correct the config."


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an MPT config.json, the inverse of `to_config`."""
    inner = {"clip_qkv": c.qkv_limit, "softmax_scale": c.score_multiplier}
    return told(c) | KEYS.told(c) | {"attn_config": inner}


NAMES = {
    "wte.weight": "embed.weight",
    "blocks.{i}.norm_1.weight": "blocks.{i}.norm1.weight",
    "blocks.{i}.attn.Wqkv.weight": qkv("weight", split_qkv, join_qkv),
    "blocks.{i}.attn.out_proj.weight": "blocks.{i}.attn.o.weight",
    "blocks.{i}.norm_2.weight": "blocks.{i}.norm2.weight",
    "blocks.{i}.ffn.up_proj.weight": "blocks.{i}.mlp.up.weight",
    "blocks.{i}.ffn.down_proj.weight": "blocks.{i}.mlp.down.weight",
    "norm_f.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
}

MPT = Family("MPT", to_config, Layout(NAMES, prefix="transformer."), to_hf)
