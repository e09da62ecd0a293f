"""Qwen 1: Llama's parts with a fused, biased projection for q, k and v.

Beyond seq_length its code scales RoPE and scores with the length of the text; this is where our context ends.
"""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, integer
from model.loading.families.fused import join_qkv, split_qkv
from model.loading.families.keys import biases, renamed
from model.loading.families.rope import ROPE_KEYS

ALIASES = {"layer_norm_epsilon": "rms_norm_eps"}
KNOWN = llama.COMMON - {"layer_types"} | {"seq_length", "kv_channels"} | neutral_keys.keys_of(neutral_keys.QWEN1)
ACCEPTED = {"no_bias": (True,), "scale_attn_weights": (True,), "use_dynamic_ntk": (True, False)}
ACCEPTED |= {"use_logn_attn": (True, False)}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen 1 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN | ROPE_KEYS, ACCEPTED)
    given = {**hf, "head_dim": hf.get("kv_channels")}
    if hf.get("seq_length") is not None:
        given["max_position_embeddings"] = hf["seq_length"]
    fields = llama.swiglu_fields(given)
    return make_config(fields | biases(True, "qkv") | {"d_mlp": integer(hf, "intermediate_size") // 2})


NAMES = {
    "wte.weight": "embed.weight",
    "h.{i}.ln_1.weight": "blocks.{i}.norm1.weight",
    **{
        f"h.{{i}}.attn.c_attn.{kind}": Into(
            tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv"), split_qkv, join_qkv
        )
        for kind in ("weight", "bias")
    },
    "h.{i}.attn.c_proj.weight": "blocks.{i}.attn.o.weight",
    "h.{i}.ln_2.weight": "blocks.{i}.norm2.weight",
    "h.{i}.mlp.w2.weight": "blocks.{i}.mlp.gate.weight",
    "h.{i}.mlp.w1.weight": "blocks.{i}.mlp.up.weight",
    "h.{i}.mlp.c_proj.weight": "blocks.{i}.mlp.down.weight",
    "ln_f.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
    "rotary_emb.inv_freq": None,  # buffer
}

QWEN1 = Family("Qwen 1", to_config, Layout(NAMES, prefix="transformer."))
