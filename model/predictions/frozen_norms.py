"""Norms with their divisors held at their values in a run, which makes them linear, and the way through them to the
logits.
"""

from collections.abc import Iterator

from torch import Tensor

from model.gpt.norm import Norm
from model.gpt.transformer import Transformer


def through(norm: Norm, scale: float, x: Tensor) -> Tensor:
    """Apply a norm without its bias and with its divisor frozen, which makes it linear. [..., D] -> [..., D]"""
    x = x - x.mean(-1, keepdim=True) if norm.kind == "layernorm" else x
    return x * (norm.weight.detach() / scale).to(x.dtype)


def back(norm: Norm, scale: float, u: Tensor) -> Tensor:
    """Apply the transpose of `through`: u.through(x) = back(u).x for every x. [D] float64 -> [D]"""
    u = u * norm.weight.detach().double() / scale
    return u - u.mean() if norm.kind == "layernorm" else u


def on_the_way(model: Transformer, layer: int, *, after_attention: bool) -> Iterator[tuple[str, int, Norm]]:
    """Yield the norms between a sublayer's output and the logits, in the order of the computation."""
    name = "after1" if after_attention else "after2"
    if (own := getattr(model.blocks[layer], name)) is not None:
        yield name, layer, own
    if model.blocks[layer].post_norm:
        for at in range(layer, len(model.blocks)):
            if at > layer or after_attention:
                yield "norm1", at, model.blocks[at].norm1
            yield "norm2", at, model.blocks[at].norm2
    if model.final_norm is not None:
        yield "final", len(model.blocks), model.final_norm


def carried(model: Transformer, layer: int, x: Tensor) -> Tensor:
    """Multiply what a layer adds by the numbers by which it and later layers multiply the stream
    (ModelConfig.layer_scale). [..., D] -> [..., D]
    """
    for block in model.blocks[layer:]:
        x = x if block.scale is None else x * block.scale.detach().to(x.dtype)
    return x
