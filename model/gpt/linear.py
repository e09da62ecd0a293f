"""A linear layer that uses the fastest exact float32 matrix product of this CPU."""

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

PACKED_ROWS = 4  # from this many rows up to 15, reordered weights are used where available


class Linear(nn.Module):
    """y = x W^T + b. x [..., in] -> [..., out]; weight [out, in], bias [out] or absent."""

    stored = False  # True if the matrix stays in its file, see model.loading.stored

    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None
        self.products: tuple[Product, ...] = ()  # one per row class, once tuned
        self.packed = False  # whether `pack` has processed it
        self.held: tuple = ()  # of a joint layer: addresses of its weights and its parts' at construction

    def forward(self, x: Tensor) -> Tensor:
        if not self.products or torch.is_grad_enabled() or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        return self.products[row_class(x.numel() // x.shape[-1])](x, self.weight, self.bias)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return weight, scale (empty) and bias (empty if absent) for the compiled loops; None unless it is tuned, see
        `tune`.
        """
        if not self.products or not _is_tuned(self.weight) or not self.weight.is_contiguous():
            return None
        none = np.empty(0, np.float32)
        return self.weight.detach().numpy(), none, none if self.bias is None else self.bias.detach().numpy()

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the tensors that its product is computed from, as they are stored."""
        return self.weight, self.bias

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """Compute the outputs of some rows of the weights. x [..., in] -> [..., rows]"""
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


def join(*parts: Linear) -> Linear:
    """Return one layer that computes several layers of the same input at once: x -> their outputs side by side.

    The parts still work: their weights and biases become slices of the joint ones, so nothing is stored twice. `joined`
    returns the layer as long as that holds.
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
    """Return the address, shape and strides of each tensor of the layers; None for a layer without tensors."""
    tensors = [tensor for layer in layers for tensor in getattr(layer, "tensors", lambda: (None,))()]
    return tuple(None if x is None else (x.data_ptr(), x.shape, x.stride()) for x in tensors)


def joined(module: nn.Module) -> nn.Module | None:
    """Return the layer that computes a module's `parts` at once; None without one, or if a part was replaced.

    An in-place change of a weight changes the joint weight, too. A parameter, or its data, that was replaced has
    another address; the parts must then be used separately until they are joined again.
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
    """Return every linear layer of a model, joint ones included."""
    modules = list(model.modules())
    joints = [joint for module in modules for joint in getattr(module, "joint", ())]
    return [module for module in (*modules, *joints) if isinstance(module, Linear)]


def pack(model: nn.Module, limit: int = 1 << 30) -> int:
    """Reorder weights for products of a few rows, as in decoding a batch; returns the bytes of the copies.

    Half again as fast for 4 to 15 rows on the tested machines, but a second copy of the weights. So only copies of at
    most `limit` bytes are made, only for layers that become faster, and only again if the weights have changed:
    `packed` detects weights that were replaced, or changed through the parameter; this function detects changes through
    its `data`, by the `digest`.
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
    """Return whether a layer's product holds reordered weights that differ from the layer's current ones."""
    return any(_is_packed(product) and product.args[3] != _digest(layer) for product in layer.products)


def _is_packed(product: Product) -> bool:
    return isinstance(product, functools.partial)


def worked(model: nn.Module) -> list[Linear]:
    """Return the layers used in a plain forward pass: the joint ones instead of their parts."""
    joining = [module for module in model.modules() if getattr(module, "joint", ())]
    used = {id(module): joined(module) for module in joining}
    idle = {id(joint) for module in joining if used[id(module)] is None for joint in module.joint}
    idle |= {id(part) for module in joining if used[id(module)] is not None for part in module.parts()}
    return [layer for layer in linears(model) if id(layer) not in idle]


def tune(model: nn.Module, folder: Path | None = None) -> Choices:
    """Choose the product of every Linear in the model; returns {(out, in): a name per row class}.

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
