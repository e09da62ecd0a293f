"""OPT: learned positions from row 2 of their table, ReLU, and LayerNorm before each sublayer, or after it."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, told
from model.loading.families.keys import Keys, biases

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "ffn_dim": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={"max_position_embeddings": ("n_ctx", 2048), "tie_word_embeddings": ("tie_embeddings", True)},
)
KNOWN = {
    *KEYS.names,
    "word_embed_proj_dim",
    "do_layer_norm_before",
    "_remove_final_layer_norm",
    "activation_function",
    "enable_bias",
    "layer_norm_elementwise_affine",
    *neutral_keys.keys_of(neutral_keys.OPT),
}
ACCEPTED = {"learned_embeddings": (True,)}
OFFSET = 2  # first row of the position table that a token uses


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an OPT config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = KEYS.read(hf)
    before, bias = flag(hf, "do_layer_norm_before", True), flag(hf, "enable_bias", True)
    weights = flag(hf, "layer_norm_elementwise_affine", True)
    more = {
        "norm_placement": "pre" if before else "post",
        "final_norm": before and not flag(hf, "_remove_final_layer_norm", False),
        "norm_weight": weights,
        "norm_bias": weights,
        "mlp": choice(hf, "activation_function", ACTIVATIONS, "relu"),
        "mlp_bias": bias,
    }
    if _narrow(hf):
        more["tie_embeddings"] = False
    return make_config(fields | biases(bias) | more)


def _narrow(hf: Mapping) -> bool:
    """Return whether embeddings have another width than the stream, as in OPT-350m."""
    width = integer(hf, "hidden_size")
    return integer(hf, "word_embed_proj_dim", width) != width


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an OPT config.json, the inverse of `to_config`."""
    more = {
        "word_embed_proj_dim": c.d_model,
        "do_layer_norm_before": c.norm_placement != "post",
        "_remove_final_layer_norm": c.norm_placement != "post" and not c.final_norm,
        "activation_function": name_of(ACTIVATIONS, c.mlp),
        "enable_bias": c.q_bias,
        "layer_norm_elementwise_affine": c.norm_weight,
    }
    return told(c) | KEYS.told(c) | more


def without_offset(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Drop the rows of the position table that no token uses. [2 + n_ctx, D] -> [n_ctx, D]"""
    return (tensor[OFFSET:],)


def with_offset(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Put unused rows of zeros in front of the position table, the inverse of `without_offset`."""
    return torch.cat((parts[0].new_zeros(OFFSET, parts[0].shape[1]), parts[0]))


NAMES = {
    "decoder.embed_tokens.weight": "embed.weight",
    "decoder.embed_positions.weight": Into(("pos_embed.weight",), without_offset, with_offset),
    **both("decoder.layers.{i}.self_attn_layer_norm", "blocks.{i}.norm1"),
    **both("decoder.layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **both("decoder.layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **both("decoder.layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("decoder.layers.{i}.self_attn.out_proj", "blocks.{i}.attn.o"),
    **both("decoder.layers.{i}.final_layer_norm", "blocks.{i}.norm2"),
    **both("decoder.layers.{i}.fc1", "blocks.{i}.mlp.up"),
    **both("decoder.layers.{i}.fc2", "blocks.{i}.mlp.down"),
    **both("decoder.final_layer_norm", "final_norm"),
    "lm_head.weight": "unembed.weight",
}

_EMBED, _HEAD = "decoder.embed_tokens.weight", "lm_head.weight"


def _layout(hf: dict) -> Layout:
    """Return the layout of a config. Narrow embeddings are multiplied with the projections to the stream and from it,
    between which nothing stands: two tables as wide as the stream give the same numbers.
    """
    if not _narrow(hf):
        return OPT.layout
    tied = flag(hf, "tie_word_embeddings", True)
    into, out = "embeddings x project_in", "head x project_out"
    joint = {
        into: ((_EMBED, "decoder.project_in.weight"), lambda table, matrix: _product(table, matrix.T)),
        out: ((_EMBED if tied else _HEAD, "decoder.project_out.weight"), _product),
    }
    names = {name: ours for name, ours in NAMES.items() if name not in (_EMBED, _HEAD)}
    copy: dict = {_HEAD: None} if tied else {}  # of the table
    return Layout(names | {into: "embed.weight", out: "unembed.weight"} | copy, prefix="model.", joint=joint)


def _product(table: Tensor, matrix: Tensor) -> Tensor:
    """Multiply in float32, and return the result in the table's type. [V, W] times [W, D] -> [V, D]"""
    return (table.float() @ matrix.float()).to(table.dtype)


OPT = Family("OPT", to_config, Layout(NAMES, prefix="model."), to_hf, _layout)
