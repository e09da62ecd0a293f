"""Products of 16-bit matrices on a CPU, and the timing trial that selects the faster one for a shape and number of
rows.

Both round the input to the 16-bit type, accumulate in float32 and round the result to that type; they differ in the
order of summation. On a CPU with instructions for the type, the native product is fastest. On others, it is faster to
convert a few rows of the weights at a time to float32, which is exact, while they are in the cache.
"""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from model.kernels.products import ROW_CLASSES, Product, row_class, times

SLICE = 1 << 20  # number of weights converted to float32 at a time, 4 MB
_WORK = 1 << 26  # maximum number of multiply-adds of one timed product
_WEIGHTS = 8 << 20  # bytes of weights that a trial cycles through
_FROM_MEMORY = 32 << 20  # the same for few rows, since a decode step reads all weights from memory
_MIN_GAIN = 0.9  # maximum ratio of the times at which "widened" replaces "own"


def own(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute torch's native product in the type and on the device of the weights; the bias is ignored.

    x [..., in] -> [..., out], both float32 and on the CPU.
    """
    return F.linear(x.to(weight), weight).to("cpu", torch.float32)


def widened(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute the product in float32, converting a few rows of the weights at a time; the bias is ignored."""
    rounded = x.to(weight.dtype).float()
    parts = weight.split(max(1, SLICE // weight.shape[1]))
    y = torch.cat([F.linear(rounded, part.float()) for part in parts], -1)
    return y.to(weight.dtype).float()


PRODUCTS: dict[str, Product] = {"own": own, "widened": widened}


def chosen(weight: Tensor, rows: int) -> Product:
    """Return the faster product for x with `rows` rows, timed on the first use of their class in ROW_CLASSES."""
    if weight.device.type != "cpu" or weight.dtype == torch.float32:
        return own
    tried = ROW_CLASSES[row_class(rows)]
    return PRODUCTS[fastest(*weight.shape, tried, weight.dtype, torch.get_num_threads())]


@functools.lru_cache(maxsize=4096)
def fastest(d_out: int, d_in: int, rows: int, dtype: torch.dtype, threads: int) -> str:
    """Return the name of the faster of PRODUCTS for x [rows, d_in] and a weight [d_out, d_in]; "own" if the difference
    is small.
    """
    d_out = min(d_out, max(64, _WORK // (d_in * rows)))  # a slice of a large product is representative
    with torch.inference_mode():
        copies = max(1, min(32, (_FROM_MEMORY if rows < 4 else _WEIGHTS) // (2 * d_out * d_in)))
        weights = [torch.full((d_out, d_in), 0.01, dtype=dtype) for _ in range(copies)]
        best = times(PRODUCTS, torch.full((rows, d_in), 0.1), weights, None)
    return "widened" if best["widened"] < _MIN_GAIN * best["own"] else "own"
