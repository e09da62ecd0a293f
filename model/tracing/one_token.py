"""A pass of only the last tokens through one layer, with the keys and values of the earlier ones."""

import dataclasses

import torch
from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.mixers.projection import project_keys
from model.gpt.passes import Attend, Pass, attend_fused
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer, attention_input


def single_token_pass(model: Transformer, stream: Tensor, layer: int, position: int, tap: Tap | None = None) -> Pass:
    """Return a Pass that runs layer `layer` for the token at `position` only.

    For earlier tokens, only the keys and values or the layer's recurrent state are computed. `stream` [T, D] is the
    layer's input. The layer is then called with the row of the position, [1, 1, D], and returns the result of the
    complete prompt, up to the rounding error of float32. Only for layers without edits, because `tap` sees a single
    token.
    """
    if model.config.mixer_of(layer) != "softmax" or not model.config.plain_scores:
        cache, text = _read(model, stream, layer, position), len(stream)
        run = model.prepare(position, 1, tap=tap, attend=attend_fused, cache=cache, text=text)
        return dataclasses.replace(run, explicit=False)
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

    `stream` [T, D] has a row for each token of the text, and holds the layer's input at least up to `start`. The
    kernel receives the queries of the n tokens, and the keys and values of all start + n.
    """
    kernel, attn = attend, model.blocks[layer].attn
    if start:
        x = attention_input(model, layer, stream[:start])
        k, v = project_keys(attn, x, model.prepare(0, start, text=len(stream)))

        def kernel(layer: int, q: Tensor, own_k: Tensor, own_v: Tensor) -> Tensor:
            return attend(layer, q, torch.cat((k, own_k), 2), torch.cat((v, own_v), 2))

    return dataclasses.replace(model.prepare(start, n, tap=tap, text=len(stream)), attend=kernel, explicit=False)


def _read(model: Transformer, stream: Tensor, layer: int, n: int) -> KVCache:
    """Return a cache in which one layer has processed the first n tokens. stream [T, D] is the layer's input."""
    cache = KVCache.empty(model.config, 1, n + 1)
    if n:
        x = attention_input(model, layer, stream[None, :n])
        model.blocks[layer].attn(x, layer, model.prepare(0, n, cache=cache, text=len(stream)))
        cache.advance(n)
    return cache
