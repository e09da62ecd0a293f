"""Products of 16-bit numbers, as models are used in practice: half the memory, and on some CPUs half the time.

Each matrix is kept in bfloat16 or float16. A product rounds its input to that type, adds up in float32 and rounds its
result to the type. All else is float32: sums of the residual stream, norms, rotations, scores, softmax and weighted
sums of values, and the matrices of experts. `torch.autocast` draws the line nearly there.

A matrix may lie on another device (model.loading.devices): the product is computed there, all else on the CPU.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from model.errors import CheckpointError
from model.gpt.linear import Linear
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.loading.stored import StoredEmbedding, StoredLinear, leave_stored

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}  # of products
UNIT = 2.0**-24  # u of float32: half the spacing of its numbers at 1, the largest relative error of one rounding


class HalfLinear(StoredLinear):
    """y = x W^T + b in the matrix's own type, where it lies. x [..., in] -> [..., out], both float32, on the CPU.

    The bias is added in float32.
    """

    def __init__(self, weight: nn.Parameter, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self.dtype, self.device = weight.dtype, str(weight.device)

    @property
    def weight(self) -> Tensor:
        """The matrix in float32 on the CPU, made anew at each look. [out, in]"""
        return cast(Tensor, self._parameters["weight"]).to("cpu", torch.float32)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """What others compute with is on the CPU: a matrix that lies elsewhere is copied."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = destination[f"{prefix}weight"].to("cpu")

    def forward(self, x: Tensor) -> Tensor:
        y = self._product(x, cast(Tensor, self._parameters["weight"]))
        return y if self.bias is None else y + self.bias


class HalfEmbedding(StoredEmbedding):
    """A table of 16-bit numbers in memory, of which the rows asked for become float32."""


@torch.no_grad()
def halved(model: Transformer, dtype: torch.dtype, place: Callable[[str], str] = lambda path: "cpu") -> Transformer:
    """Return the same model with the matrices of its linear layers, and its tables, in a type of 16 bits.

    They are copied one at a time, each linear layer's to the device that `place` names for it, and layers of the same
    input joined. Raises CheckpointError for a weight that is too large for the type.
    """
    kept: dict[tuple[int, str], nn.Parameter] = {}  # a tied head stays tied, on the same device
    for path, module in model.named_modules():
        if isinstance(module, Linear | nn.Embedding):
            weight, device = module.weight, place(path) if isinstance(module, Linear) else "cpu"
            if (id(weight), device) not in kept:
                rounded = _rounded(weight, dtype, path).to(device)
                kept[id(weight), device] = nn.Parameter(rounded, requires_grad=False)
            module.weight = kept[id(weight), device]
    model.join()
    return leave_stored(model, HalfLinear, HalfEmbedding)


def _rounded(weight: Tensor, dtype: torch.dtype, path: str) -> Tensor:
    rounded = weight.detach().to(dtype, copy=True)
    if not torch.isfinite(rounded).all() and torch.isfinite(weight).all():
        got = f"{path}: {float(weight.abs().max()):g} > {torch.finfo(dtype).max:g}"
        raise CheckpointError("A weight is too large for float16.", got, "Start with --dtype bfloat16.")
    return rounded


def in_float32(model: Transformer) -> Transformer:
    """Return the same weights, which are shared, with products in float32; a model without 16-bit products as it is."""
    if unit(model) == UNIT:
        return model
    return leave_stored(build(model.config, model.state_dict()))


def unit(model: nn.Module) -> float:
    """Return the largest relative error of rounding a product's inputs and results: 2^-8 for bfloat16, 2^-11 for
    float16.
    """
    types = {module.dtype for module in model.modules() if isinstance(module, StoredLinear)}
    return max((torch.finfo(dtype).eps / 2 for dtype in types), default=UNIT)
