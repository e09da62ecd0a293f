"""One token through a block on its own, with the keys and values of the earlier tokens."""

import torch
from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.layers import fused_attention, rotate, split_heads
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer


def alone(model: Transformer, stream: Tensor, layer: int, position: int, tap: Tap | None = None) -> Pass:
    """A Pass to run block `layer` for the token at `position` only.

    Of earlier tokens only keys and values are computed, or the state that the layer carries. `stream` [T, D] is the
    block's input; the block is then called with the row of the position, [1, 1, D], and gives the result of the whole
    prompt, to float32 rounding. For blocks without edits: `tap` sees one token.
    """
    attn, attend = model.blocks[layer].attn, attend_fused
    if model.config.mixer_of(layer) != "softmax":
        return Pass(model.prepare(position, 1).rope, attend, _read(model, stream[:position], layer), tap)
    if position:
        x = stream[:position]
        x = x if model.blocks[layer].post_norm else model.blocks[layer].norm1(x)
        k, v = (split_heads(linear(x[None]), attn.d_head) for linear in (attn.k, attn.v))
        k = k if attn.k_norm is None else attn.k_norm(k)
        rope = model.prepare(0, position).rope
        k = k if rope is None else rotate(k, *rope)

        def attend(layer: int, q: Tensor, own_k: Tensor, own_v: Tensor) -> Tensor:
            return fused_attention(q, torch.cat((k, own_k), 2), torch.cat((v, own_v), 2))

    return Pass(model.prepare(position, 1).rope, attend, None, tap)


def _read(model: Transformer, stream: Tensor, layer: int) -> KVCache:
    """A cache in which one layer has read these tokens. stream [T, D], the block's input"""
    cache, block, T = KVCache.empty(model.config, 1, len(stream) + 1), model.blocks[layer], len(stream)
    if T:
        x = stream[None] if block.post_norm else block.norm1(stream[None])
        block.attn(x, layer, model.prepare(0, T, cache=cache))
        cache.advance(T)
    return cache
