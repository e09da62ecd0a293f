"""Decoding speed in the formats that have real low-precision products; all others are simulated."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from model.gpt.cache import KVCache
from model.gpt.decode_step import without_codes
from model.gpt.linear import Linear
from model.gpt.mixers.needs import need_attention
from model.gpt.transformer import Transformer
from model.kernels import ready
from model.loading.halves import HalfLinear
from model.quantization.experiments import changed, changed_block, kinds_of
from model.quantization.int8 import quantized

_STEPS, _LONGEST = 24, 1.5  # maximum number of decoded tokens, and maximum duration in seconds, of a measurement


@torch.inference_mode()
def halved(model: Transformer) -> Transformer:
    """Build a model with bfloat16 matrices, including the output head, and real bfloat16 products."""
    need_attention(model.config)
    ours = changed(model, {layer: changed_block(model, layer, lambda *_: None) for layer in range(len(model.blocks))})
    for block in ours.blocks:
        for kind in kinds_of(model):
            owner = block.attn if kind in "qkvo" else block.mlp
            setattr(owner, kind, _bfloat16(getattr(owner, kind)))
    ours.unembed = _bfloat16(model.unembed)
    return ours


def _bfloat16(layer: Linear) -> HalfLinear:
    return HalfLinear(nn.Parameter(layer.weight.detach().bfloat16(), requires_grad=False), layer.bias)


RUNNERS: dict[str, Callable[[Transformer], Transformer]] = {
    "float32": without_codes,
    "bf16": halved,
    "int8-channel": quantized,
}


@torch.inference_mode()
def tokens_per_second(model: Transformer, key: str, ids: Sequence[int], report: Callable[[], None]) -> float:
    """Measure the speed of greedy decoding with a cache in a format of RUNNERS: 1 / the median time per token.

    The output head is in the same format. Raises ValueError for a simulated format.
    """
    if key not in RUNNERS:
        raise ValueError(f"only {', '.join(RUNNERS)} are run as they are, got {key}")
    running, n_ctx = RUNNERS[key](model), model.config.n_ctx
    ready.now()  # otherwise it would be measured before its steps are compiled
    start = max(min(len(ids), n_ctx - _STEPS), 1)
    cache = KVCache.empty(model.config, 1, min(start + _STEPS, n_ctx))
    token = running.logits(running.trunk(torch.tensor([list(ids[:start])]), cache=cache)[:, -1:])[0, -1:].argmax(-1)
    seconds, began = [], time.perf_counter()
    for _ in range(min(_STEPS, n_ctx - start)):
        report()
        step = time.perf_counter()
        token = running(token[None], cache=cache)[0].argmax(-1)
        seconds.append(time.perf_counter() - step)
        if time.perf_counter() - began > _LONGEST and len(seconds) > 4:
            break
    return 1 / float(np.median(seconds)) if seconds else 0.0
