"""The available float32 matrix products, and the timing trial that selects the fastest for a shape and number of rows.

torch contains more than one GEMM, and numpy another. Depending on the CPU and the number of rows, their speeds differ
by factors of up to five, so each pair of weight shape and row class is timed once, in a few milliseconds, when a model
is loaded. All are float32 products of the same numbers and differ only in rounding.
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

ROW_CLASSES = (1, 2, 4, 16, 48, 192, 768)  # a product with N rows uses the choice for the largest class <= N
PADDED = 8  # minimum number of rows of "padded", with zeros for missing ones
PROBED_ROWS = 6  # number of rows in the trial of reordered weights
_FROM_MEMORY = 32 << 20  # bytes of weights in a trial with few rows, since a decode step reads all weights
_PROBE_WEIGHTS = 8 << 20  # the same for more rows
_PROBE_WORK = 1 << 27  # maximum number of multiply-adds of one timed product, about a millisecond
_ROUNDS = 3  # number of rounds of a trial; the candidates alternate, so that a slowdown affects all
_HOPELESS = 2.0  # ratio to the fastest time at which a candidate is not timed again
_MIN_GAIN = 0.9  # maximum ratio of the times at which the preferred product is replaced, since timings are noisy
_PREFERRED = "onednn"  # least affected by other load
_PREFERRED_ALONE = "F.linear"  # for single rows, which are memory-bound and for which oneDNN has a higher overhead


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _mv(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a matrix-vector product with another routine of the same library.
    Several rows are computed by F.linear.
    """
    if x.numel() != weight.shape[1]:
        return F.linear(x, weight, bias)
    row = x.reshape(-1)
    y = torch.mv(weight, row) if bias is None else torch.addmv(bias, weight, row)
    return y.view(*x.shape[:-1], len(weight))


def _numpy(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute numpy's matrix-vector product with OpenBLAS on one thread. Several rows are computed by F.linear.

    If memory bandwidth is the limit, one thread is as fast as two. It also does not spin: OpenBLAS's own threads,
    beside a busy browser, were 10 to 100 times slower.
    """
    if x.numel() != weight.shape[1]:
        return F.linear(x, weight, bias)
    y = torch.from_numpy(weight.detach().numpy() @ x.reshape(-1).numpy())
    y = y if bias is None else y.add_(bias)
    return y.view(*x.shape[:-1], len(weight))


def _padded(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the product with oneDNN, padded to PADDED rows with zeros,
    which is faster than fewer rows on some CPUs.
    """
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) >= PADDED:
        return _onednn(x, weight, bias)
    full = F.pad(rows, (0, 0, 0, PADDED - len(rows)))
    return _onednn(full, weight, bias)[: len(rows)].view(*x.shape[:-1], len(weight))


def _parts(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the outputs in parts, two per thread, as one batched product.

    A library that computes a product with few rows on a single thread distributes the parts of a batch over all
    threads.
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
# Maximum number of rows of products that only support or suit few rows.
_MOST_ROWS = {"mv": 1, "numpy": 1, "padded": PADDED - 1, "parts": 47}


def row_class(rows: int) -> int:
    """Return the index into ROW_CLASSES of the largest class that is at most `rows`."""
    return max(bisect.bisect_right(ROW_CLASSES, rows) - 1, 0)


def candidates(rows: int) -> dict[str, Product]:
    """Return the entries of PRODUCTS to time for a number of rows."""
    return {name: product for name, product in PRODUCTS.items() if rows <= _MOST_ROWS.get(name, rows)}


@functools.lru_cache(maxsize=4096)
def fastest(d_out: int, d_in: int, rows: int, threads: int) -> str:
    """Return the name of the fastest of PRODUCTS for x [rows, d_in] and weight [d_out, d_in].

    The preferred product is returned if the difference is small.
    """
    d_out = min(d_out, max(64, _PROBE_WORK // (d_in * rows)))  # a slice of a large product is representative
    with torch.inference_mode():
        # Products with many rows are compute-bound, so a few suffice.
        weights = _weights(d_out, d_in, _FROM_MEMORY if rows < 4 else min(_PROBE_WEIGHTS, 8 * _PROBE_WORK // rows))
        x, bias = torch.full((rows, d_in), 0.1), torch.zeros(d_out)
        with _openblas().limit(limits=1):
            best = times(candidates(rows), x, weights, bias)
    winner, preferred = min(best, key=best.__getitem__), _PREFERRED if row_class(rows) else _PREFERRED_ALONE
    return winner if best[winner] < _MIN_GAIN * best[preferred] else preferred


@functools.lru_cache(maxsize=4096)
def packing_pays(d_out: int, d_in: int, threads: int) -> bool:
    """Return whether reordered weights make a product with a few rows faster than the best of PRODUCTS."""
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
    """Return the address, strides and version of each weight. The version counts in-place changes, except those through
    `data`.
    """
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
    """Return the product with weights reordered for PROBED_ROWS rows, or with the current weights if they have changed
    since.

    `weights` are the reordered matrix and the parameters that are slices of it; `stamps` are their stamps at that time;
    `digest` is the matrix's digest by model.kernels.coded.
    """
    same = stamp((weight, *weights[1:])) == stamps
    return _onednn(x, reordered if same else weight, bias)


def one_openblas_thread() -> None:
    """Limit numpy's products to one thread for the rest of the process, the condition under which "numpy" was timed."""
    _openblas().limit(limits=1)


@functools.cache
def _openblas() -> ThreadpoolController:
    return ThreadpoolController().select(internal_api="openblas")


def _weights(d_out: int, d_in: int, total: int) -> list[Tensor]:
    """Return at least 1 and at most 32 matrices of a shape, with about `total` bytes together."""
    copies = max(1, min(32, total // (4 * d_out * d_in)))
    return [torch.full((d_out, d_in), 0.01) for _ in range(copies)]


def times(products: Mapping[str, Product], x: Tensor, weights: list[Tensor], bias: Tensor | None) -> dict[str, float]:
    """Return the minimum seconds of several rounds over all weights, infinity if this version of torch does not support
    a product.

    A product that took at least _HOPELESS times as long as the fastest is not timed again.
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
