"""A pass of only the last tokens through one layer, with the keys and values of the earlier ones."""

import torch
from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.layers import rotate, split_heads
from model.gpt.passes import Attend, Pass, attend_fused
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer


def single_token_pass(model: Transformer, stream: Tensor, layer: int, position: int, tap: Tap | None = None) -> Pass:
    """Return a Pass that runs layer `layer` for the token at `position` only.

    For earlier tokens, only the keys and values or the layer's recurrent state are computed. `stream` [T, D] is the
    layer's input. The layer is then called with the row of the position, [1, 1, D], and returns the result of the
    complete prompt, up to the rounding error of float32. Only for layers without edits, because `tap` sees a single
    token.
    """
    if model.config.mixer_of(layer) != "softmax":
        return Pass(model.prepare(position, 1).rope, attend_fused, _read(model, stream[:position], layer), tap)
    return after(model, stream, layer, position, 1, tap=tap)


def after(
    model: Transformer,
    stream: Tensor,
    layer: int,
    start: int,
    n: int,
    *,
    attend: Attend = attend_fused,
    tap: Tap | None = None,
) -> Pass:
    """Return a Pass that runs the n tokens from `start` on in a layer of full attention; `attend` is its kernel.

    `stream` [S, D] holds the layer's input at least up to `start`. The kernel receives the queries of the n tokens,
    and the keys and values of all start + n.
    """
    block, kernel = model.blocks[layer], attend
    attn = block.attn
    if start:
        x = stream[:start]
        x = x if block.post_norm else block.norm1(x)
        k, v = (split_heads(linear(x[None]), attn.d_head) for linear in (attn.k, attn.v))
        k = k if attn.k_norm is None else attn.k_norm(k)
        rope = model.prepare(0, start).rope
        k = k if rope is None else rotate(k, *rope)

        def kernel(layer: int, q: Tensor, own_k: Tensor, own_v: Tensor) -> Tensor:
            return attend(layer, q, torch.cat((k, own_k), 2), torch.cat((v, own_v), 2))

    return Pass(model.prepare(start, n).rope, kernel, None, tap)


def _read(model: Transformer, stream: Tensor, layer: int) -> KVCache:
    """Return a cache in which one layer has processed these tokens. stream [T, D] is the layer's input."""
    cache, block, T = KVCache.empty(model.config, 1, len(stream) + 1), model.blocks[layer], len(stream)
    if T:
        x = stream[None] if block.post_norm else block.norm1(stream[None])
        block.attn(x, layer, model.prepare(0, T, cache=cache))
        cache.advance(T)
    return cache
