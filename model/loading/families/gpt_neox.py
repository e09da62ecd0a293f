"""GPT-NeoX, the architecture of Pythia: LayerNorm, RoPE on a fraction of each head, attention and MLP in parallel."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, name_of, real, sizes, told
from model.loading.families.rope import ROPE_KEYS, rope, rope_told

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
    "hidden_act",
    "layer_norm_eps",
    "use_parallel_residual",
    "attention_bias",
    "tie_word_embeddings",
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GPT-NeoX config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    fields = sizes(hf, SIZES)
    bias = flag(hf, "attention_bias", True)
    return make_config(
        fields
        | rope(hf, default_fraction=0.25)
        | {f"{name}_bias": bias for name in "qkvo"}
        | {
            "positions": "rope",
            "norm_eps": real(hf, "layer_norm_eps", 1e-5),
            "mlp": choice(hf, "hidden_act", ACTIVATIONS, "gelu"),
            "parallel_residual": flag(hf, "use_parallel_residual", True),
            "tie_embeddings": flag(hf, "tie_word_embeddings", False),
        }
    )


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GPT-NeoX config.json, the inverse of `to_config`."""
    return (
        told(c)
        | {theirs: getattr(c, ours) for theirs, ours in SIZES.items()}
        | {
            "rope_parameters": rope_told(c) | {"partial_rotary_factor": c.rotary_fraction},
            "hidden_act": name_of(ACTIVATIONS, c.mlp),
            "layer_norm_eps": c.norm_eps,
            "use_parallel_residual": c.parallel_residual,
            "attention_bias": c.q_bias,
        }
    )


def split_qkv(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v interleaved by head. weight [H * 3 * E, D] or bias [H * 3 * E] -> three of [H * E, ...]"""
    heads = tensor.unflatten(0, (config.n_head, 3, -1))  # [H, 3, E, ...]
    return tuple(part.flatten(0, 1) for part in heads.unbind(1))


def join_qkv(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Combine q, k and v interleaved by head, the inverse of `split_qkv`. [H * 3 * E, ...]"""
    return torch.stack([part.unflatten(0, (config.n_head, -1)) for part in parts], 1).flatten(0, 2)


def _qkv(kind: str) -> Into:
    return Into(tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv"), split_qkv, join_qkv)


def _both(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}


LAYOUT = Layout(
    prefix="gpt_neox.",
    names={
        "embed_in.weight": "embed.weight",
        **_both("layers.{i}.input_layernorm", "blocks.{i}.norm1"),
        "layers.{i}.attention.query_key_value.weight": _qkv("weight"),
        "layers.{i}.attention.query_key_value.bias": _qkv("bias"),
        **_both("layers.{i}.attention.dense", "blocks.{i}.attn.o"),
        **_both("layers.{i}.post_attention_layernorm", "blocks.{i}.norm2"),
        **_both("layers.{i}.mlp.dense_h_to_4h", "blocks.{i}.mlp.up"),
        **_both("layers.{i}.mlp.dense_4h_to_h", "blocks.{i}.mlp.down"),
        **_both("final_layer_norm", "final_norm"),
        "embed_out.weight": "unembed.weight",
        "lm_head.weight": "unembed.weight",  # its name in memory since transformers 5
        # Buffers of the causal mask and the RoPE frequencies in old files.
        "layers.{i}.attention.bias": None,
        "layers.{i}.attention.masked_bias": None,
        "layers.{i}.attention.rotary_emb.inv_freq": None,
    },
)

GPT_NEOX = Family("GPT-NeoX (Pythia)", to_config, LAYOUT, to_hf)
