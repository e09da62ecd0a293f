"""Matrix products in 16-bit types, as usual in deployment: half the memory, and on some CPUs half the time.

Each matrix is stored in bfloat16 or float16. A product rounds its input to that type, accumulates in float32 and rounds
its result to the type. All else is float32: residual additions, norms, rotations, scores, softmax and weighted sums of
values, and the products of experts. `torch.autocast` makes nearly the same choice.

A matrix may be on another device (model.loading.devices): the product is computed there, all else on the CPU.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from model.errors import CheckpointError
from model.gpt.experts import Stack
from model.gpt.linear import Linear
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.loading.stored import StoredEmbedding, StoredLinear, StoredStack, leave_stored

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}  # types of the products
UNIT = 2.0**-24  # unit roundoff u of float32: half the spacing at 1, the largest relative error of one rounding


class HalfLinear(StoredLinear):
    """A linear layer y = x W^T + b, computed in the matrix's own type on its device.

    x [..., in] -> [..., out], both float32 on the CPU. The bias is added in float32.
    """

    def __init__(self, weight: nn.Parameter, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self.dtype, self.device = weight.dtype, str(weight.device)

    @property
    def weight(self) -> Tensor:
        """The matrix in float32 on the CPU, converted on each access. [out, in]"""
        return cast(Tensor, self._parameters["weight"]).to("cpu", torch.float32)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """Copy a matrix from another device to the CPU, where code that uses the state dict expects it."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = destination[f"{prefix}weight"].to("cpu")

    def forward(self, x: Tensor) -> Tensor:
        y = self._product(x, cast(Tensor, self._parameters["weight"]))
        return y if self.bias is None else y + self.bias


class HalfEmbedding(StoredEmbedding):
    """An embedding table in a 16-bit type in memory; requested rows are converted to float32."""


class HalfStack(StoredStack):
    """The matrices of experts in a 16-bit type in memory; those of an expert that is used are converted to float32."""


@torch.no_grad()
def halved(model: Transformer, dtype: torch.dtype, place: Callable[[str], str] = lambda path: "cpu") -> Transformer:
    """Return the model with its linear layers' matrices and its embedding tables in a 16-bit type.

    They are copied one at a time, the matrix of each linear layer to its device as given by `place`, and layers with
    the same input are joined. Raises CheckpointError for a weight that is too large for the type.
    """
    kept: dict[tuple[int, str], nn.Parameter] = {}  # a tied head stays tied if it is on the same device
    for path, module in model.named_modules():
        if isinstance(module, Linear | nn.Embedding | Stack):
            weight, device = module.weight, place(path) if isinstance(module, Linear) else "cpu"
            if (id(weight), device) not in kept:
                rounded = _rounded(weight, dtype, path).to(device)
                kept[id(weight), device] = nn.Parameter(rounded, requires_grad=False)
            module.weight = kept[id(weight), device]
    model.join()
    return leave_stored(model, HalfLinear, HalfEmbedding, HalfStack)


def _rounded(weight: Tensor, dtype: torch.dtype, path: str) -> Tensor:
    rounded = weight.detach().to(dtype, copy=True)
    if not torch.isfinite(rounded).all() and torch.isfinite(weight).all():
        got = f"{path}: {float(weight.abs().max()):g} > {torch.finfo(dtype).max:g}"
        raise CheckpointError("A weight is too large for float16.", got, "Start with --dtype bfloat16.")
    return rounded


def in_float32(model: Transformer) -> Transformer:
    """Return the model with float32 products and the same, shared weights. A model without 16-bit products is returned
    unchanged.
    """
    if unit(model) == UNIT:
        return model
    return leave_stored(build(model.config, model.state_dict()))


def unit(model: nn.Module) -> float:
    """Return the largest relative error from rounding a product's inputs and results: 2^-8 for bfloat16, 2^-11 for
    float16.
    """
    types = {module.dtype for module in model.modules() if isinstance(module, StoredLinear)}
    return max((torch.finfo(dtype).eps / 2 for dtype in types), default=UNIT)
