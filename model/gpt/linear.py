"""A linear layer that runs on the fastest exact float32 matrix product this CPU offers.

torch ships more than one GEMM. Which is fastest depends on the CPU and on the number of rows by
factors of up to five, so each (weight shape, row class) is timed once, in a few milliseconds, when a
model is loaded. All candidates are float32 products of the same numbers; they differ by rounding only.
"""

import bisect
import functools
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# x [..., in], weight [out, in], bias [out] -> [..., out]
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]

ROW_CLASSES = (1, 4, 16, 48, 192, 768)  # a product of N rows uses the choice for the largest class <= N
_PROBE_WEIGHTS = 8 << 20  # bytes of weights cycled through, so that a probe does not run from cache
_PROBE_WORK = 1 << 27  # multiply-adds of one probed product, about a millisecond
_MIN_GAIN = 0.9  # leave the preferred product only for one this much faster: a probe is noisy
PACKED_ROWS = 4  # from this many rows up to 15, reordered weights are used where available
_PROBED_ROWS = 6  # number of rows in the trial
_PREFERRED = "onednn"  # steadiest beside a busy neighbour
_PREFERRED_ALONE = "F.linear"  # for single rows, where memory decides and oneDNN starts more slowly


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


# numpy's product (OpenBLAS) is not used: alone it is the fastest for one row, but its own threads spin, and next to a
# busy browser it was measured 10 to 100 times slower than these.
PRODUCTS: dict[str, Product] = {"F.linear": F.linear, "onednn": _onednn}


class Linear(nn.Module):
    """y = x W^T + b. x [..., in] -> [..., out]; weight [out, in], bias [out] or absent."""

    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None
        self.products: tuple[Product, ...] = ()  # one per row class, once tuned
        self.packed = False  # whether `pack` has processed it

    def forward(self, x: Tensor) -> Tensor:
        if not self.products or torch.is_grad_enabled() or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        return self.products[row_class(x.numel() // x.shape[-1])](x, self.weight, self.bias)


def join(*parts: Linear) -> Linear:
    """One layer that computes several layers of the same input at once: x -> their outputs side by side.

    The parts still work: their weights and biases become slices of the joint ones, so nothing is stored twice.
    """
    joint = Linear(parts[0].weight.shape[1], 0, bias=any(part.bias is not None for part in parts))
    joint.weight = nn.Parameter(_side_by_side([part.weight.detach() for part in parts]), requires_grad=False)
    if joint.bias is not None:
        biases = [part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        joint.bias = nn.Parameter(_side_by_side([bias.detach() for bias in biases]), requires_grad=False)
    start = 0
    for part in parts:
        end = start + len(part.weight)
        part.weight.data = joint.weight.data[start:end]
        if part.bias is not None:
            part.bias.data = joint.bias.data[start:end]
        start = end
    return joint


def _side_by_side(tensors: list[Tensor]) -> Tensor:
    """The tensors as one, along the first axis: themselves where they lie so in memory, else a copy."""
    first, end = tensors[0], tensors[0].storage_offset()
    for tensor in tensors:
        if tensor.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or tensor.storage_offset() != end:
            return torch.cat(tensors)
        end += tensor.numel()
    if not all(tensor.is_contiguous() for tensor in tensors):
        return torch.cat(tensors)
    return first.as_strided((sum(map(len, tensors)), *first.shape[1:]), first.stride(), first.storage_offset())


def linears(model: nn.Module) -> list[Linear]:
    """Every linear layer of a model, joint ones included."""
    modules = list(model.modules())
    joints = [joint for module in modules for joint in getattr(module, "joint", ())]
    return [module for module in (*modules, *joints) if isinstance(module, Linear)]


def pack(model: nn.Module, limit: int = 1 << 30) -> int:
    """Reorder weights for products of a few rows, as in decoding a batch; returns the bytes of the copies.

    Half again as fast for 4 to 15 rows on the tested machines, but a second copy of the weights: only
    where the copy is at most `limit` bytes, only layers that it makes faster, and only once.
    """
    layers = [layer for layer in worked(model) if layer.products and not layer.packed]
    if sum(layer.weight.nbytes for layer in layers) > limit:
        return 0
    for layer in layers:
        layer.packed = True
        if packing_pays(*layer.weight.shape, torch.get_num_threads()):
            reordered = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _PROBED_ROWS)
            product = functools.partial(_packed, reordered)
            layer.products = (layer.products[0], product, *layer.products[2:])
    return sum(product.args[0].nbytes for layer in layers for product in layer.products if _is_packed(product))


def _packed(reordered: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, reordered, bias, "none", [], "")


def _is_packed(product: Product) -> bool:
    return isinstance(product, functools.partial)


def worked(model: nn.Module) -> list[Linear]:
    """The layers used in a plain forward: the joint ones instead of their parts."""
    inside = {id(part) for module in model.modules() if getattr(module, "joint", ()) for part in module.parts()}
    return [layer for layer in linears(model) if id(layer) not in inside]


@functools.lru_cache(maxsize=4096)
def packing_pays(d_out: int, d_in: int, threads: int) -> bool:
    """Whether a reordered weight makes a product of a few rows faster than the best of PRODUCTS."""
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * _PROBED_ROWS)))
    copies = max(1, min(8, _PROBE_WEIGHTS // (4 * d_out * d_in)))
    with torch.inference_mode():
        plain = [torch.full((d_out, d_in), 0.01) for _ in range(copies)]
        x, bias = torch.full((_PROBED_ROWS, d_in), 0.1), torch.zeros(d_out)
        try:
            reordered = [torch.ops.mkldnn._reorder_linear_weight(weight, _PROBED_ROWS) for weight in plain]
        except (RuntimeError, AttributeError, NotImplementedError):
            return False
        best = min(_time(product, x, plain, bias) for product in PRODUCTS.values())
        return _time(_onednn, x, reordered, bias) < _MIN_GAIN * best


def row_class(rows: int) -> int:
    """Index into ROW_CLASSES of the largest class that is at most `rows`."""
    return max(bisect.bisect_right(ROW_CLASSES, rows) - 1, 0)


def tune(model: nn.Module) -> dict[tuple[int, int], tuple[str, ...]]:
    """Choose the product of every Linear in the model; returns {(out, in): a name per row class}."""
    chosen = {}
    for module in linears(model):
        if module.weight.device.type == "cpu" and module.weight.dtype == torch.float32:
            shape = tuple(module.weight.shape)
            names = tuple(fastest(*shape, rows, torch.get_num_threads()) for rows in ROW_CLASSES)
            module.products = tuple(PRODUCTS[name] for name in names)
            chosen[shape] = names
    return chosen


@functools.lru_cache(maxsize=4096)
def fastest(d_out: int, d_in: int, rows: int, threads: int) -> str:
    """Name of the fastest of PRODUCTS for x [rows, d_in] and weight [d_out, d_in]; the preferred one if in doubt.

    "F.linear" where no other runs on this torch.
    """
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * rows)))  # a slice of a large product is representative
    copies = max(1, min(8, _PROBE_WEIGHTS // (4 * d_out * d_in)))
    with torch.inference_mode():
        weights = [torch.full((d_out, d_in), 0.01) for _ in range(copies)]
        x, bias = torch.full((rows, d_in), 0.1), torch.zeros(d_out)
        best = {name: _time(product, x, weights, bias) for name, product in PRODUCTS.items()}
    winner, preferred = min(best, key=best.get), _PREFERRED if row_class(rows) else _PREFERRED_ALONE
    return winner if best[winner] < _MIN_GAIN * best[preferred] else preferred


def _time(product: Product, x: Tensor, weights: list[Tensor], bias: Tensor) -> float:
    """Least seconds of two rounds over all weights; infinite where the product does not run on this torch."""
    try:
        product(x, weights[0], bias)
    except (RuntimeError, AttributeError, NotImplementedError):
        return float("inf")
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        for weight in weights:
            product(x, weight, bias)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
