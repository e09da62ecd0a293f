"""A model with 8-bit weights: a quarter of the bytes to read per token, with nearly the same predictions.

The quantization is weight-only: every row of a matrix is integers from -127 to 127 times one float32 scale, and
everything else stays float32. `effect` measures the resulting change on the prompt.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.api import LanguageModel
from model.gpt.cache import KVCache
from model.gpt.decode_ways import MOST_ROWS, remember
from model.gpt.linear import held_by
from model.gpt.mixers.needs import need_attention
from model.gpt.transformer import Transformer, share_ends, share_norms
from model.kernels import ready
from model.kernels.products import ROW_CLASSES, Product, row_class
from model.public import public

_SLICE = 1 << 21  # number of weights converted to float32 at a time: 8 MB


@dataclass(frozen=True)
class Effect:
    """Divergence of the 8-bit model's predictions from the float32 model's, over the positions of a prompt."""

    positions: int  # number of positions compared
    kl: float  # mean KL(float32 || int8), nats
    agree: float  # fraction of positions with the same most likely token
    largest: float  # largest absolute difference of a log-probability among each position's ten most likely tokens
    nbytes: int  # size of the 8-bit weights and their scales in bytes
    full: int  # size of the same weights in float32 in bytes


class Int8Linear(nn.Module):
    """y = x W^T + b with W[i, j] = scale[i] * whole[i, j]. x [..., in] -> [..., out]"""

    def __init__(self, integers: Tensor, scale: Tensor, bias: Tensor | None, products: Sequence[Product] = ()) -> None:
        super().__init__()
        self.whole = nn.Parameter(integers, requires_grad=False)  # int8 [out, in]
        self.bias = bias
        self.products = products or (F.linear,) * len(ROW_CLASSES)  # for float32 matrices of this shape, see `tune`
        self.register_buffer("scale", scale)  # [out]
        # in a joint layer: the memory addresses of its tensors and of its parts' when it was built
        self.held: tuple = ()

    @property
    def width(self) -> int:
        """The number of input features."""
        return self.whole.shape[1]

    @property
    def weight(self) -> Tensor:
        """The dequantized matrix in float32. [out, in]"""
        return self.whole.float() * self.scale[:, None]

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the stored tensors from which the product is computed."""
        return self.whole, self.scale, self.bias

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return integers, scale and bias (empty if absent) for the compiled loops."""
        bias = np.empty(0, np.float32) if self.bias is None else self.bias.detach().numpy()
        return self.whole.numpy(), self.scale.numpy(), bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        loops = ready.now() if len(rows) <= MOST_ROWS else None
        if loops is None:
            product = self.products[row_class(len(rows))]
            parts = self.whole.split(max(1, _SLICE // self.width))
            y = torch.cat([product(x, part.float(), None) for part in parts], -1).mul_(self.scale)
            return y if self.bias is None else y.add_(self.bias)
        y = np.empty((len(rows), len(self.whole)), np.float32)
        with ready.threads() as threads:
            loops.product(np.ascontiguousarray(rows.detach().numpy()), *self.arrays(), y, threads)
        return torch.from_numpy(y).view(*x.shape[:-1], -1)


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a matrix to integers [out, in] and a scale per row [out]: w is about scale * whole, with an error of at
    most scale / 2.

    The scheme is symmetric, with one scale per output channel: scale = max |w| / 127. Jacob et al. 2018, section 2.1,
    with zero point 0.
    """
    scale = weight.detach().abs().amax(1).float() / 127
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))  # keeps a row of zeros
    return (weight.detach() / safe[:, None]).round().clamp(-127, 127).to(torch.int8), scale


@torch.inference_mode()
def quantized(model: Transformer) -> Transformer:
    """Build a model with 8-bit matrices; norms, embeddings, biases and position embeddings are the model's own
    tensors.
    """
    need_attention(model.config)
    with torch.device("meta"):
        small = Transformer(model.config)
    small.eval().requires_grad_(False)
    share_ends(small, model)
    small.unembed = _linear(model.unembed)
    for ours, theirs in zip(small.blocks, model.blocks, strict=True):
        share_norms(ours, theirs)
        ours.attn.o, ours.mlp.down = _linear(theirs.attn.o), _linear(theirs.mlp.down)
        (ours.attn.q, ours.attn.k, ours.attn.v), ours.attn.joint = _joined(theirs.attn.parts(), theirs.attn.joint)
        if theirs.mlp.gate is None:
            ours.mlp.up = _linear(theirs.mlp.up)
        else:
            (ours.mlp.gate, ours.mlp.up), ours.mlp.joint = _joined(theirs.mlp.parts(), theirs.mlp.joint)
    return small


def _linear(layer: nn.Module) -> Int8Linear:
    return Int8Linear(*rounded(layer.weight), layer.bias, layer.products)


def _joined(layers: Sequence[nn.Module], joint: Sequence[nn.Module]) -> tuple[list[Int8Linear], tuple[Int8Linear]]:
    """Quantize layers with the same input, and build one layer that computes them all and shares their memory; `joint`
    is that of the float32 model.
    """
    integers, scale = rounded(torch.cat([layer.weight.detach() for layer in layers]))
    bias = None
    if any(layer.bias is not None for layer in layers):
        bias = torch.cat([scale.new_zeros(len(x.weight)) if x.bias is None else x.bias.detach() for x in layers])
    parts, start = [], 0
    for layer in layers:
        end = start + len(layer.weight)
        parts.append(Int8Linear(integers[start:end], scale[start:end], layer.bias, layer.products))
        start = end
    joined = Int8Linear(integers, scale, bias, joint[0].products if joint else ())
    joined.held = held_by((joined, *parts))
    return parts, (joined,)


@public()
def int8(lm: LanguageModel) -> LanguageModel:
    """Build a language model with 8-bit weights and with its own id and dtype."""
    model = quantized(lm.model)
    remember(model)
    return dataclasses.replace(lm, id=f"{lm.id} int8", model=model, dtype="int8 weights")


def layers_of(model: Transformer) -> list[Int8Linear]:
    """Return the 8-bit layers; layers that share memory are listed once."""
    return [module for module in model.modules() if isinstance(module, Int8Linear)]


@torch.inference_mode()
def effect(model: Transformer, small: Transformer, ids: Sequence[int]) -> Effect:
    """Measure the effect of 8-bit weights on the predictions after every token of a prompt, ids [T].

    The 8-bit model processes the prompt a few tokens at a time, so that it uses the same product as in generation.
    """
    tokens = torch.tensor([ids])
    stream, cache = model.trunk(tokens), KVCache.empty(small.config, 1, len(ids))
    kl, agree, largest = 0.0, 0, 0.0
    for start in range(0, len(ids), MOST_ROWS):  # [T, V] is never in memory at once
        part = slice(start, start + MOST_ROWS)
        full = model.logits(stream[:, part])[0].float().log_softmax(-1)  # [few, V]
        less = small(tokens[:, part], cache=cache)[0].float().log_softmax(-1)
        top = full.topk(min(10, full.shape[-1])).indices
        kl += float((full.exp() * (full - less)).sum())
        agree += int((full.argmax(-1) == less.argmax(-1)).sum())
        largest = max(largest, float((full.gather(-1, top) - less.gather(-1, top)).abs().max()))
    layers = layers_of(small)
    return Effect(
        positions=len(ids),
        kl=kl / len(ids),
        agree=agree / len(ids),
        largest=largest,
        nbytes=sum(layer.whole.nbytes + layer.scale.nbytes for layer in layers),
        full=sum(4 * len(layer.scale) * layer.width for layer in layers),
    )
