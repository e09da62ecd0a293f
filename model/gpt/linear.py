"""A linear layer that uses the fastest full-precision float32 matrix product of this CPU."""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.kernels import remembered
from model.kernels.coded import digest
from model.kernels.products import (
    PROBED_ROWS,
    PRODUCTS,
    ROW_CLASSES,
    Product,
    fastest,
    one_openblas_thread,
    packed,
    packing_pays,
    row_class,
    stamp,
)
from model.kernels.remembered import Choices

PACKED_ROWS = 4  # minimum number of rows (up to 15) for which reordered weights are used if available


class Linear(nn.Module):
    """y = x W^T + b. x [..., in] -> [..., out]; weight [out, in], bias [out] or None."""

    stored = False  # whether the matrix stays in its file (model.loading.stored)

    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None
        self.products: tuple[Product, ...] = ()  # one per row class, after tuning
        self.packed = False  # whether `pack` has processed it
        self.held: tuple = ()  # for a joint layer: result of `held_by` for it and its parts at construction

    def forward(self, x: Tensor) -> Tensor:
        if not self.products or torch.is_grad_enabled() or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        return self.products[row_class(x.numel() // x.shape[-1])](x, self.weight, self.bias)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the weight, scale (empty) and bias (empty if None) for the compiled loops; None if the layer is not
        tuned.
        """
        if not self.products or not _is_tuned(self.weight) or not self.weight.is_contiguous():
            return None
        none = np.empty(0, np.float32)
        return self.weight.detach().numpy(), none, none if self.bias is None else self.bias.detach().numpy()

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the tensors from which its product is computed, as they are stored."""
        return self.weight, self.bias

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """Compute the outputs for a slice of the rows of the weight. x [..., in] -> [..., rows]"""
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


def join(*parts: Linear) -> Linear:
    """Return one layer that computes several layers of the same input at once: x -> their concatenated outputs.

    The parts remain usable: their weights and biases become slices of the joint ones, so nothing is stored twice.
    `joined` returns the joint layer as long as that is the case.
    """
    joint = Linear(parts[0].weight.shape[1], 0, bias=any(part.bias is not None for part in parts))
    joint.weight = nn.Parameter(_side_by_side([part.weight.detach() for part in parts]), requires_grad=False)
    if joint.bias is not None:
        some = next(part.bias for part in parts if part.bias is not None)
        biases = [some.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        joint.bias = nn.Parameter(_side_by_side([bias.detach() for bias in biases]), requires_grad=False)
    start = 0
    for part in parts:
        end = start + len(part.weight)
        part.weight.data = joint.weight.data[start:end]
        if part.bias is not None:
            part.bias.data = joint.bias.data[start:end]
        start = end
    joint.held = held_by((joint, *parts))
    return joint


def held_by(layers: Sequence[nn.Module]) -> tuple:
    """Return the address, shape and strides of each tensor of the layers, with None for a layer without tensors."""
    tensors = [tensor for layer in layers for tensor in getattr(layer, "tensors", lambda: (None,))()]
    return tuple(None if x is None else (x.data_ptr(), x.shape, x.stride()) for x in tensors)


def joined(module: nn.Module) -> nn.Module | None:
    """Return the layer that computes a module's `parts` at once, or None if it does not exist or a part was replaced.

    In-place changes of a weight also change the joint weight. A replaced parameter, or replaced data, has another
    address; the parts must then be used separately until they are joined again.
    """
    for joint in module.joint:
        if joint.held == held_by((joint, *module.parts())):
            return joint
    return None


def _side_by_side(tensors: list[Tensor]) -> Tensor:
    """Concatenate tensors along the first axis, without a copy if they are adjacent in memory."""
    first, end = tensors[0], tensors[0].storage_offset()
    for tensor in tensors:
        if tensor.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or tensor.storage_offset() != end:
            return torch.cat(tensors)
        end += tensor.numel()
    if not all(tensor.is_contiguous() for tensor in tensors):
        return torch.cat(tensors)
    return first.as_strided((sum(map(len, tensors)), *first.shape[1:]), first.stride(), first.storage_offset())


def linears(model: nn.Module) -> list[Linear]:
    """Return all linear layers of a model, including joint ones."""
    modules = list(model.modules())
    joints = [joint for module in modules for joint in getattr(module, "joint", ())]
    return [module for module in (*modules, *joints) if isinstance(module, Linear)]


def pack(model: nn.Module, limit: int = 1 << 30) -> int:
    """Pack weights in another order for products with a few rows, as in batched decoding, and return the bytes of the
    copies.

    Products with 4 to 15 rows become about 1.5 times as fast on the tested machines, but a second copy of the weights
    is required. Copies are therefore made only if they have at most `limit` bytes in total, only for layers that become
    faster, and again only if the weights have changed. `packed` detects weights that were replaced, or changed through
    the parameter; this function detects changes through its `data`, by the `digest`.
    """
    layers = [layer for layer in worked(model) if layer.products and (not layer.packed or _is_stale(layer))]
    if sum(layer.weight.nbytes for layer in layers) > limit:
        return 0
    joining = [module for module in model.modules() if getattr(module, "joint", ())]
    slices = {id(module.joint[0]): [part.weight for part in module.parts()] for module in joining}
    for layer in layers:
        layer.packed = True
        if packing_pays(*layer.weight.shape, torch.get_num_threads()):
            reordered = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), PROBED_ROWS)
            at = row_class(PACKED_ROWS)
            weights = (layer.weight, *slices.get(id(layer), ()))
            product = functools.partial(packed, reordered, weights, stamp(weights), _digest(layer))
            layer.products = (*layer.products[:at], product, *layer.products[at + 1 :])
    return sum(product.args[0].nbytes for layer in layers for product in layer.products if _is_packed(product))


def _digest(layer: Linear) -> str:
    """Return the digest of a layer's weight."""
    return digest([layer.weight.detach().numpy()])


def _is_stale(layer: Linear) -> bool:
    """Return whether a layer's product uses reordered weights that differ from the layer's current ones."""
    return any(_is_packed(product) and product.args[3] != _digest(layer) for product in layer.products)


def _is_packed(product: Product) -> bool:
    return isinstance(product, functools.partial)


def worked(model: nn.Module) -> list[Linear]:
    """Return the layers used in a plain forward pass, with joint layers instead of their parts."""
    joining = [module for module in model.modules() if getattr(module, "joint", ())]
    used = {id(module): joined(module) for module in joining}
    idle = {id(joint) for module in joining if used[id(module)] is None for joint in module.joint}
    idle |= {id(part) for module in joining if used[id(module)] is not None for part in module.parts()}
    return [layer for layer in linears(model) if id(layer) not in idle]


def tune(model: nn.Module, folder: Path | None = None) -> Choices:
    """Select the fastest product for every Linear in the model. Returns {(out, in): one name per row class}.

    With a folder, earlier measurements on this machine are read from a file there, and new ones are written to it.
    """
    layers = [layer for layer in linears(model) if not layer.stored and _is_tuned(layer.weight)]
    path = None if folder is None else remembered.file_in(folder)
    known = {} if path is None else remembered.read(path)
    chosen = {}
    for shape in dict.fromkeys(tuple(layer.weight.shape) for layer in layers):
        chosen[shape] = known.get(shape) or tuple(fastest(*shape, n, torch.get_num_threads()) for n in ROW_CLASSES)
    if any("numpy" in names for names in chosen.values()):
        one_openblas_thread()
    for layer in layers:
        layer.products = tuple(PRODUCTS[name] for name in chosen[tuple(layer.weight.shape)])
    if path is not None and chosen.keys() - known.keys():
        remembered.write(path, known | chosen)
    return chosen


def _is_tuned(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
