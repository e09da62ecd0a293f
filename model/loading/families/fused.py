"""Tensors that hold several of our weights: how to split them, and how to combine them again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into

_BLOCKS = 4  # CodeGen was trained on blocks of heads for this number of processors


def split_qkv(weight: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v, concatenated along the outputs. [(H + 2 G) E, D] -> [H E, D] and two of [G E, D]"""
    keys = config.n_kv_head * config.d_head
    return weight.split((config.n_head * config.d_head, keys, keys))


def join_qkv(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Concatenate q, k and v, the inverse of `split_qkv`."""
    return torch.cat(tuple(parts))


def split_groups(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v that lie together for each KV head: its query heads, then k and v.

    weight [G * (H / G + 2) * E, D] or bias -> [H * E, ...] and two of [G * E, ...]
    """
    groups = tensor.unflatten(0, (config.n_kv_head, config.group_size + 2, -1))
    return groups[:, :-2].flatten(0, 2), groups[:, -2].flatten(0, 1), groups[:, -1].flatten(0, 1)


def join_groups(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Combine q, k and v, the inverse of `split_groups`."""
    return torch.cat([part.unflatten(0, (config.n_kv_head, -1)) for part in parts], 1).flatten(0, 1)


def split_blocks(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v of CodeGen: blocks of a quarter of the heads, each with q, v and k in this order. [3 D, D]"""
    q, v, k = tensor.unflatten(0, (_BLOCKS, 3, -1)).unbind(1)
    return tuple(part.flatten(0, 1) for part in (q, k, v))


def join_blocks(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Combine q, k and v, the inverse of `split_blocks`. [3 D, D]"""
    q, k, v = (part.unflatten(0, (_BLOCKS, -1)) for part in parts)
    return torch.stack((q, v, k), 1).flatten(0, 2)


def qkv(kind: str, split, join) -> Into:
    """Return the conversion of a fused projection to q, k and v."""
    return Into(tuple(f"blocks.{{i}}.attn.{part}.{kind}" for part in "qkv"), split, join)
