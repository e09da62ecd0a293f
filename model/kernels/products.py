"""The available float32 matrix products, and the trial that finds the fastest for a shape and a number of rows.

torch ships more than one GEMM, and numpy another. Which is fastest depends on the CPU and on the number of rows by
factors of up to five, so each (weight shape, row class) is timed once, in a few milliseconds, when a model is loaded.
All are float32 products of the same numbers; they differ by rounding only.
"""

import bisect
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from threadpoolctl import ThreadpoolController
from torch import Tensor

# x [..., in], weight [out, in], bias [out] -> [..., out]
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]

ROW_CLASSES = (1, 2, 4, 16, 48, 192, 768)  # a product of N rows uses the choice for the largest class <= N
PADDED = 8  # rows of the product that replaces one with fewer
PROBED_ROWS = 6  # rows in the trial of reordered weights
_FROM_MEMORY = 32 << 20  # bytes of weights cycled through by a trial of few rows, since a decode step reads them all
_PROBE_WEIGHTS = 8 << 20  # and by the others
_PROBE_WORK = 1 << 27  # multiply-adds of one probed product, about a millisecond
_ROUNDS = 3  # rounds of a trial; the candidates take turns, so that a slow moment affects all
_HOPELESS = 2.0  # a candidate this many times slower than the fastest of the first round is dropped
_MIN_GAIN = 0.9  # replace the preferred product only by one this much faster, since a probe is noisy
_PREFERRED = "onednn"  # the least affected by other load
_PREFERRED_ALONE = "F.linear"  # for single rows, which are bound by memory and for which oneDNN starts more slowly


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _mv(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a matrix times a vector, by another routine of the same library. For one row; F.linear computes more."""
    if x.numel() != weight.shape[1]:
        return F.linear(x, weight, bias)
    row = x.reshape(-1)
    y = torch.mv(weight, row) if bias is None else torch.addmv(bias, weight, row)
    return y.view(*x.shape[:-1], len(weight))


def _numpy(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute numpy's matrix times a vector, by OpenBLAS on one thread. For one row; F.linear computes more.

    One thread reads as fast as two if memory is the limit, and does not spin: OpenBLAS's own threads, next to a busy
    browser, made it 10 to 100 times slower.
    """
    if x.numel() != weight.shape[1]:
        return F.linear(x, weight, bias)
    y = torch.from_numpy(weight.detach().numpy() @ x.reshape(-1).numpy())
    y = y if bias is None else y.add_(bias)
    return y.view(*x.shape[:-1], len(weight))


def _padded(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the product by oneDNN with rows of zeros up to PADDED, which is faster than fewer rows on some CPUs."""
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) >= PADDED:
        return _onednn(x, weight, bias)
    full = F.pad(rows, (0, 0, 0, PADDED - len(rows)))
    return _onednn(full, weight, bias)[: len(rows)].view(*x.shape[:-1], len(weight))


def _parts(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the outputs in parts, two for each thread, as one batch of products.

    A library that leaves a product of few rows to one thread gives each part of a batch its own.
    """
    rows, n = x.reshape(-1, x.shape[-1]), math.gcd(len(weight), 2 * torch.get_num_threads())
    each = weight.view(n, -1, weight.shape[1]).transpose(1, 2)  # [n, in, out / n]
    y = torch.bmm(rows.expand(n, *rows.shape), each)  # [n, N, out / n]
    y = y.transpose(0, 1).reshape(*x.shape[:-1], len(weight))
    return y if bias is None else y.add_(bias)


PRODUCTS: dict[str, Product] = {
    "F.linear": F.linear,
    "onednn": _onednn,
    "mv": _mv,
    "numpy": _numpy,
    "padded": _padded,
    "parts": _parts,
}
# Of those that are something else with more, and of the one that is for few.
_MOST_ROWS = {"mv": 1, "numpy": 1, "padded": PADDED - 1, "parts": 47}


def row_class(rows: int) -> int:
    """Return the index into ROW_CLASSES of the largest class that is at most `rows`."""
    return max(bisect.bisect_right(ROW_CLASSES, rows) - 1, 0)


def candidates(rows: int) -> dict[str, Product]:
    """Return the entries of PRODUCTS to try for a number of rows."""
    return {name: product for name, product in PRODUCTS.items() if rows <= _MOST_ROWS.get(name, rows)}


@functools.lru_cache(maxsize=4096)
def fastest(d_out: int, d_in: int, rows: int, threads: int) -> str:
    """Return the name of the fastest of PRODUCTS for x [rows, d_in] and weight [d_out, d_in]; the preferred one if in
    doubt.

    "F.linear" if no other one runs on this torch.
    """
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * rows)))  # a slice of a large product is representative
    with torch.inference_mode():
        # Many rows are bound by arithmetic: a few products suffice.
        weights = _weights(d_out, d_in, _FROM_MEMORY if rows < 4 else min(_PROBE_WEIGHTS, 8 * _PROBE_WORK // rows))
        x, bias = torch.full((rows, d_in), 0.1), torch.zeros(d_out)
        with _openblas().limit(limits=1):
            best = times(candidates(rows), x, weights, bias)
    winner, preferred = min(best, key=best.__getitem__), _PREFERRED if row_class(rows) else _PREFERRED_ALONE
    return winner if best[winner] < _MIN_GAIN * best[preferred] else preferred


@functools.lru_cache(maxsize=4096)
def packing_pays(d_out: int, d_in: int, threads: int) -> bool:
    """Return whether a reordered weight makes a product of a few rows faster than the best of PRODUCTS."""
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * PROBED_ROWS)))
    with torch.inference_mode():
        plain = _weights(d_out, d_in, _PROBE_WEIGHTS)
        x, bias = torch.full((PROBED_ROWS, d_in), 0.1), torch.zeros(d_out)
        try:
            reordered = [torch.ops.mkldnn._reorder_linear_weight(weight, PROBED_ROWS) for weight in plain]
        except (RuntimeError, AttributeError, NotImplementedError):
            return False
        best = min(times(candidates(PROBED_ROWS), x, plain, bias).values())
        return times({"packed": _onednn}, x, reordered, bias)["packed"] < _MIN_GAIN * best


def stamp(weights: Sequence[Tensor]) -> list[tuple]:
    """Return address, strides and version of weights; a version counts changes in place, except those of `data`."""
    return [(each.data_ptr(), each.stride(), 0 if each.is_inference() else each._version) for each in weights]


def packed(
    reordered: Tensor,
    weights: Sequence[Tensor],
    stamps: list[tuple],
    digest: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """Return the product with weights reordered for PROBED_ROWS rows, or with the plain ones if they have changed
    since.

    `weights`: the reordered matrix and its slices that are parameters; `stamps`: theirs at that time; `digest`: the
    matrix's, from model.kernels.coded. A matrix that was changed or replaced is multiplied as it is.
    """
    same = stamp((weight, *weights[1:])) == stamps
    return _onednn(x, reordered if same else weight, bias)


def one_openblas_thread() -> None:
    """Limit numpy's products to one thread from now on, as "numpy" was timed."""
    _openblas().limit(limits=1)


@functools.cache
def _openblas() -> ThreadpoolController:
    return ThreadpoolController().select(internal_api="openblas")


def _weights(d_out: int, d_in: int, total: int) -> list[Tensor]:
    """Return matrices of a shape, enough to have `total` bytes together; at least 1, at most 32."""
    copies = max(1, min(32, total // (4 * d_out * d_in)))
    return [torch.full((d_out, d_in), 0.01) for _ in range(copies)]


def times(products: Mapping[str, Product], x: Tensor, weights: list[Tensor], bias: Tensor | None) -> dict[str, float]:
    """Return the minimum seconds of several rounds over all weights; infinite if a product does not run on this torch.

    A product that took twice as long as another is not timed again.
    """
    best = dict.fromkeys(products, math.inf)
    runs = {name: product for name, product in products.items() if _runs(product, x, weights[0], bias)}
    for _ in range(_ROUNDS):
        for name, product in runs.items():
            best[name] = min(best[name], _time(product, x, weights, bias))
        least = min(best.values())
        runs = {name: product for name, product in runs.items() if best[name] < _HOPELESS * least}
    return best


def _runs(product: Product, x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    try:
        product(x, weight, bias)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return True


def _time(product: Product, x: Tensor, weights: list[Tensor], bias: Tensor | None) -> float:
    """Return the seconds of one round over all weights."""
    start = time.perf_counter()
    for weight in weights:
        product(x, weight, bias)
    return time.perf_counter() - start
