"""A linear layer that runs on the fastest exact float32 matrix product this CPU offers.

torch ships more than one GEMM. Which is fastest depends on the CPU and on the number of rows by
factors of up to five, so each (weight shape, row class) is timed once, in a few milliseconds, when a
model is loaded. All candidates are float32 products of the same numbers; they differ by rounding only.
"""

import functools
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # x [N, in], weight [out, in], bias [out] -> [N, out]

ROW_CLASSES = (1, 4, 16, 48, 192, 768)  # a product of N rows uses the choice made for the largest class <= N
_PROBE_WEIGHTS = 8 << 20  # bytes of weights cycled through, so that a probe does not run from cache
_PROBE_WORK = 1 << 27  # multiply-adds of one probed product, about a millisecond
_MIN_GAIN = 0.9  # leave the preferred product only for something this much faster: a probe is noisy
_PREFERRED = "onednn"  # steadiest beside a busy neighbour


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


# numpy's product (OpenBLAS) is left out: alone it is the fastest for one row, but its own threads spin, and beside a
# busy browser it was measured 10 to 100 times slower than these.
PRODUCTS: dict[str, Product] = {"F.linear": F.linear, "onednn": _onednn}


class Linear(nn.Module):
    """y = x W^T + b. x [..., in] -> [..., out]; weight [out, in], bias [out] or absent."""

    def __init__(self, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.empty(d_out)) if bias else None
        self.products: tuple[Product, ...] = ()  # one a row class, once tuned

    def forward(self, x: Tensor) -> Tensor:
        if not self.products or torch.is_grad_enabled() or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        product = self.products[row_class(len(rows))]
        return product(rows, self.weight, self.bias).view(*x.shape[:-1], self.weight.shape[0])


def row_class(rows: int) -> int:
    """Index into ROW_CLASSES of the largest class that is at most `rows`."""
    return max(i for i, size in enumerate(ROW_CLASSES) if size <= max(rows, 1))


def tune(model: nn.Module) -> dict[tuple[int, int], tuple[str, ...]]:
    """Choose the product of every Linear in the model; returns {(out, in): a name per row class}."""
    chosen = {}
    for module in model.modules():
        if isinstance(module, Linear) and module.weight.device.type == "cpu" and module.weight.dtype == torch.float32:
            shape = tuple(module.weight.shape)
            names = tuple(fastest(*shape, rows, torch.get_num_threads()) for rows in ROW_CLASSES)
            module.products = tuple(PRODUCTS[name] for name in names)
            chosen[shape] = names
    return chosen


@functools.lru_cache(maxsize=4096)
def fastest(d_out: int, d_in: int, rows: int, threads: int) -> str:
    """Name of the fastest of PRODUCTS for x [rows, d_in] and weight [d_out, d_in]; the preferred one where in doubt.

    "F.linear" where no other runs on this torch.
    """
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * rows)))  # a slice of a large product shows which is fastest
    copies = max(1, min(8, _PROBE_WEIGHTS // (4 * d_out * d_in)))
    with torch.inference_mode():
        weights = [torch.full((d_out, d_in), 0.01) for _ in range(copies)]
        x, bias = torch.full((rows, d_in), 0.1), torch.zeros(d_out)
        best = {name: _time(product, x, weights, bias) for name, product in PRODUCTS.items()}
    winner = min(best, key=best.get)
    return winner if best[winner] < _MIN_GAIN * best[_PREFERRED] else _PREFERRED


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
