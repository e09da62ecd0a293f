"""Products of 16-bit numbers, as models are used in practice: half the memory, and on some CPUs half the time.

Each matrix is kept in bfloat16 or float16. A product rounds its input to that type, adds up in float32 and rounds its
result to the type. All else is float32: sums of the residual stream, norms, rotations, scores, softmax and weighted
sums of values, and the matrices of experts. `torch.autocast` draws the line nearly there.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.errors import CheckpointError
from model.gpt.linear import Linear
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.loading.stored import StoredEmbedding, StoredLinear, leave_stored

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}  # of products
UNIT = 2.0**-24  # u of float32: half the spacing of its numbers at 1, the largest relative error of one rounding


class HalfLinear(StoredLinear):
    """y = x W^T + b of 16-bit numbers. x [..., in] -> [..., out], both float32; the bias is added in float32."""

    def forward(self, x: Tensor) -> Tensor:
        weight = cast(Tensor, self._parameters["weight"])
        y = F.linear(x.to(weight.dtype), weight).float()
        return y if self.bias is None else y + self.bias


class HalfEmbedding(StoredEmbedding):
    """A table of 16-bit numbers in memory, of which the rows asked for become float32."""


@torch.no_grad()
def halved(model: Transformer, dtype: torch.dtype) -> Transformer:
    """The same model with the matrices of its linear layers, and its tables, in a type of 16 bits.

    They are copied one at a time, and layers of the same input joined. Raises CheckpointError for a weight that is too
    large for the type.
    """
    kept: dict[int, nn.Parameter] = {}  # a tied head stays tied
    for path, module in model.named_modules():
        if isinstance(module, Linear | nn.Embedding):
            weight = module.weight
            if id(weight) not in kept:
                kept[id(weight)] = nn.Parameter(_rounded(weight, dtype, path), requires_grad=False)
            module.weight = kept[id(weight)]
    model.join()
    return leave_stored(model, HalfLinear, HalfEmbedding)


def _rounded(weight: Tensor, dtype: torch.dtype, path: str) -> Tensor:
    rounded = weight.detach().to(dtype, copy=True)
    if not torch.isfinite(rounded).all() and torch.isfinite(weight).all():
        got = f"{path}: {float(weight.abs().max()):g} > {torch.finfo(dtype).max:g}"
        raise CheckpointError("A weight is too large for float16.", got, "Start with --dtype bfloat16.")
    return rounded


def in_float32(model: Transformer) -> Transformer:
    """The same weights, which are shared, with products in float32; a model without 16-bit products as it is."""
    if unit(model) == UNIT:
        return model
    return leave_stored(build(model.config, model.state_dict()))


def unit(model: nn.Module) -> float:
    """The largest relative error of rounding a product's inputs and results: 2^-8 for bfloat16, 2^-11 for float16."""
    types = {module._parameters["weight"].dtype for module in model.modules() if isinstance(module, HalfLinear)}
    return max((torch.finfo(dtype).eps / 2 for dtype in types), default=UNIT)
