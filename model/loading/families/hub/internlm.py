"""Models with Llama's parts under other names: InternLM 1 and 2, MiniCPM (with multipliers), Orion (LayerNorm), XVERSE
and EXAONE 3.
"""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, flag, real
from model.loading.families.fused import join_groups, qkv, split_groups
from model.loading.families.keys import biases, renamed

_NOTES = {"_from_model_config"} | neutral_keys.keys_of(neutral_keys.LLAMA)
KNOWN = llama.COMMON | _NOTES


def internlm_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an InternLM config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN | {"bias"}, {"rotary": ({"base": 10000, "type": "origin"},)})
    return make_config(llama.swiglu_fields(hf) | llama.full(hf) | biases(flag(hf, "bias", True)))


def internlm2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an InternLM2 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN | {"bias"}, {})
    return make_config(llama.swiglu_fields(hf) | llama.full(hf) | biases(flag(hf, "bias", True)))


def minicpm_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a MiniCPM config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | {"scale_emb", "scale_depth", "dim_model_base", "attention_bias"}, {})
    fields = llama.swiglu_fields(hf, tied=True) | llama.full(hf) | biases(flag(hf, "attention_bias", False))
    multipliers = {
        "embed_multiplier": real(hf, "scale_emb", 1.0),
        "residual_multiplier": real(hf, "scale_depth", 1.0) / max(real(fields, "n_layer"), 1) ** 0.5,
        "logit_multiplier": real(hf, "dim_model_base", 1.0) / max(real(fields, "d_model"), 1),
    }
    return make_config(fields | multipliers)


def orion_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an Orion config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | {"attention_bias"}, {})
    fields = llama.swiglu_fields(hf, eps=1e-5) | llama.full(hf) | biases(flag(hf, "attention_bias", False))
    return make_config(fields | {"norm": "layernorm", "norm_bias": True})


def xverse_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an XVERSE config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | {"max_tokenizer_truncation"}, {})  # of its tokenizer
    return make_config(llama.swiglu_fields(hf) | llama.full(hf))


_EXAONE = {
    "activation_function": "hidden_act",
    "layer_norm_epsilon": "rms_norm_eps",
    "num_layers": "num_hidden_layers",
}


def exaone_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an EXAONE 3 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    hf = renamed(hf, _EXAONE)
    check_keys(hf, KNOWN | {"embed_dropout"}, {})  # in training
    return make_config(llama.swiglu_fields(hf, eps=1e-5) | llama.full(hf))


# --- names ---

INTERNLM2_NAMES = {
    "model.tok_embeddings.weight": "embed.weight",
    "model.layers.{i}.attention_norm.weight": "blocks.{i}.norm1.weight",
    "model.layers.{i}.attention.wqkv.weight": qkv("weight", split_groups, join_groups),
    "model.layers.{i}.attention.wqkv.bias": qkv("bias", split_groups, join_groups),
    "model.layers.{i}.attention.wo.weight": "blocks.{i}.attn.o.weight",
    "model.layers.{i}.attention.wo.bias": "blocks.{i}.attn.o.bias",
    "model.layers.{i}.ffn_norm.weight": "blocks.{i}.norm2.weight",
    "model.layers.{i}.feed_forward.w1.weight": "blocks.{i}.mlp.gate.weight",
    "model.layers.{i}.feed_forward.w3.weight": "blocks.{i}.mlp.up.weight",
    "model.layers.{i}.feed_forward.w2.weight": "blocks.{i}.mlp.down.weight",
    "model.norm.weight": "final_norm.weight",
    "output.weight": "unembed.weight",
}
ORION_NAMES = llama.NAMES | {
    "layers.{i}.input_layernorm.bias": "blocks.{i}.norm1.bias",
    "layers.{i}.post_attention_layernorm.bias": "blocks.{i}.norm2.bias",
    "norm.bias": "final_norm.bias",
}
EXAONE_NAMES = {
    "transformer.wte.weight": "embed.weight",
    "transformer.h.{i}.ln_1.weight": "blocks.{i}.norm1.weight",
    **{
        f"transformer.h.{{i}}.attn.attention.{theirs}.weight": f"blocks.{{i}}.attn.{ours}.weight"
        for theirs, ours in {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}.items()
    },
    "transformer.h.{i}.ln_2.weight": "blocks.{i}.norm2.weight",
    "transformer.h.{i}.mlp.c_fc_0.weight": "blocks.{i}.mlp.gate.weight",
    "transformer.h.{i}.mlp.c_fc_1.weight": "blocks.{i}.mlp.up.weight",
    "transformer.h.{i}.mlp.c_proj.weight": "blocks.{i}.mlp.down.weight",
    "transformer.ln_f.weight": "final_norm.weight",
    "transformer.rotary.inv_freq": None,  # buffer
    "lm_head.weight": "unembed.weight",
}

INTERNLM = Family("InternLM", internlm_config, llama.LAYOUT)
INTERNLM2 = Family("InternLM2", internlm2_config, Layout(INTERNLM2_NAMES))
MINICPM = Family("MiniCPM", minicpm_config, llama.LAYOUT)
ORION = Family("Orion", orion_config, Layout(ORION_NAMES, prefix="model."))
XVERSE = Family("XVERSE", xverse_config, llama.LAYOUT)
EXAONE = Family("EXAONE 3", exaone_config, Layout(EXAONE_NAMES))
