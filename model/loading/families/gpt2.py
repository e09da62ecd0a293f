"""GPT-2: LayerNorm, learned positions, GELU, one fused projection for q, k and v."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import (
    ACTIVATIONS,
    Family,
    check_keys,
    choice,
    flag,
    integer,
    name_of,
    real,
    sizes,
    told,
)

SIZES = {
    "vocab_size": "vocab_size",
    "n_positions": "n_ctx",
    "n_embd": "d_model",
    "n_layer": "n_layer",
    "n_head": "n_head",
}
KNOWN = {
    *SIZES,
    "n_ctx",
    "n_inner",
    "activation_function",
    "layer_norm_epsilon",
    "tie_word_embeddings",
    *neutral_keys.keys_of(neutral_keys.GPT2),
}
ACCEPTED = {
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GPT-2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = sizes(hf, SIZES)
    if integer(hf, "n_ctx", fields["n_ctx"]) != fields["n_ctx"]:
        got = f"n_ctx {hf['n_ctx']}, n_positions {fields['n_ctx']}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")
    return make_config(
        fields
        | {
            "d_mlp": integer(hf, "n_inner", 4 * fields["d_model"]),
            "norm_eps": real(hf, "layer_norm_epsilon", 1e-5),
            "mlp": choice(hf, "activation_function", ACTIVATIONS, "gelu_new"),
            "tie_embeddings": flag(hf, "tie_word_embeddings", True),
        }
    )


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GPT-2 config.json, the inverse of `to_config`."""
    return (
        told(c)
        | {theirs: getattr(c, ours) for theirs, ours in SIZES.items()}
        | {
            "n_inner": c.d_mlp,
            "activation_function": name_of(ACTIVATIONS, c.mlp),
            "layer_norm_epsilon": c.norm_eps,
        }
    )


def transpose(weight: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Transpose a Conv1D weight of GPT-2. [in, out] -> [out, in]"""
    return (weight.t(),)


def split_qkv(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v, concatenated along the outputs. weight [D, 3 D] -> three [D, D]; bias [3 D] -> three [D]"""
    return tensor.t().unflatten(0, (3, -1)).unbind(0)


def transpose_back(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the Conv1D weight, the inverse of `transpose`. [out, in] -> [in, out]"""
    return parts[0].t()


def join_qkv(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Concatenate the weights of q, k and v: [in, 3 out], or their biases: [3 out]."""
    return torch.cat(tuple(parts)).t() if parts[0].ndim == 2 else torch.cat(tuple(parts))


def _qkv(kind: str) -> Into:
    return Into(tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv"), split_qkv, join_qkv)


LAYOUT = Layout(
    prefix="transformer.",
    names={
        "wte.weight": "embed.weight",
        "wpe.weight": "pos_embed.weight",
        "h.{i}.ln_1.weight": "blocks.{i}.norm1.weight",
        "h.{i}.ln_1.bias": "blocks.{i}.norm1.bias",
        "h.{i}.attn.c_attn.weight": _qkv("weight"),
        "h.{i}.attn.c_attn.bias": _qkv("bias"),
        "h.{i}.attn.c_proj.weight": Into(("blocks.{i}.attn.o.weight",), transpose, transpose_back),
        "h.{i}.attn.c_proj.bias": "blocks.{i}.attn.o.bias",
        "h.{i}.ln_2.weight": "blocks.{i}.norm2.weight",
        "h.{i}.ln_2.bias": "blocks.{i}.norm2.bias",
        "h.{i}.mlp.c_fc.weight": Into(("blocks.{i}.mlp.up.weight",), transpose, transpose_back),
        "h.{i}.mlp.c_fc.bias": "blocks.{i}.mlp.up.bias",
        "h.{i}.mlp.c_proj.weight": Into(("blocks.{i}.mlp.down.weight",), transpose, transpose_back),
        "h.{i}.mlp.c_proj.bias": "blocks.{i}.mlp.down.bias",
        "ln_f.weight": "final_norm.weight",
        "ln_f.bias": "final_norm.bias",
        "lm_head.weight": "unembed.weight",
        # Buffers of the causal mask in old files.
        "h.{i}.attn.bias": None,
        "h.{i}.attn.masked_bias": None,
    },
)

GPT2 = Family("GPT-2", to_config, LAYOUT, to_hf)
