"""Cost of each attention implementation: time and memory by context length, measured on this machine."""

import contextlib
import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.profiler import profile

from model.design.kernels import KEYS, QUERIES, WAYS, Exact, Way, exactness
from model.generation.cache_costs import Times
from model.progress import Progress, silent
from model.public import between, public, whole

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
MOST_MATRIX = 320 << 20  # maximum bytes of a score matrix; implementations that need more are not measured
ROUNDS = 9  # maximum number of timed rounds per length
FEWEST = 3  # minimum number of rounds
BUDGET = 16.0  # maximum seconds for all measurements
ITEM = 4  # bytes of a float32

# torch's profiler writes to the terminal at every start, and also if its first run is outside the main thread.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")
with contextlib.suppress(RuntimeError), profile(use_cpu=True):
    pass


@dataclass(frozen=True)
class KernelCost:
    """Cost of one implementation at one context length."""

    way: str  # a key of WAYS
    length: int  # context length T = S
    seconds: Times
    peak: int | None  # peak bytes of live tensors besides q, k and v; None if torch does not report it
    derived: int  # bytes of scores in memory at once, by formula


@dataclass(frozen=True)
class Costs:
    """The measurements and the conditions under which they were taken."""

    heads: int
    kv_heads: int
    d_head: int
    costs: tuple[KernelCost, ...]  # sorted by increasing length, then in the order of WAYS
    exact: tuple[tuple[int, tuple[Exact, ...]], ...]  # (length, errors relative to float64) on the random q, k, v
    threads: int
    waiting: str  # the value of OMP_WAIT_POLICY, "" if it is not set


def matrix_bytes(way: str, heads: int, length: int, d_head: int) -> int:
    """Return the bytes of float32 scores in memory at once.

    4 H T S for "naive", 4 H 128 S for "rows", 4 H 128 128 for "chunked". 0 for the fused kernel, which keeps its blocks
    in the processor's caches. Dao et al. 2022, section 2.2 and theorem 1.
    """
    rows, keys = min(QUERIES, length), min(KEYS, length)
    entries = {"naive": length * length, "rows": rows * length, "chunked": rows * keys, "fused": 0}
    return ITEM * heads * entries[way]


def random_qkv(heads: int, kv_heads: int, length: int, d_head: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw q, k and v with independent standard normal entries. q [1, H, T, E], k and v [1, G, T, E]"""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(1, n, length, d_head, generator=generator) for n in (heads, kv_heads, kv_heads))


def peak_bytes(way: Way, q: Tensor, k: Tensor, v: Tensor) -> int | None:
    """Return the peak bytes of live allocations while attention runs, including its output; None if torch does not
    report them.

    torch's profiler reports every allocation and release of its CPU allocator, including temporary ones inside a
    kernel; the peak is the largest running sum. It counts tensors, not pages: the registers of a matrix product, and
    memory that the underlying library allocates by itself, are not included.
    """
    try:
        with torch.inference_mode(), profile(use_cpu=True, profile_memory=True) as profiler:
            z = way(q, k, v)
            del z
        events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
        live = most = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            live += event.nbytes()
            most = max(most, live)
    except (RuntimeError, AttributeError, TypeError):  # not available in this version of torch
        return None
    return most or None


def lengths_of(limit: int) -> tuple[int, ...]:
    """Return the context lengths to measure, up to the limit."""
    return tuple(length for length in LENGTHS if length <= limit) or (limit,)


def ways_at(heads: int, length: int, d_head: int) -> tuple[str, ...]:
    """Return the implementations to run at a context length, without those whose score matrix is too large."""
    return tuple(way for way in WAYS if matrix_bytes(way, heads, length, d_head) <= MOST_MATRIX)


@public(shape=whole(1), limit=whole(1), budget=between(0, 1e6))
@torch.inference_mode()
def measure(shape: tuple[int, int, int], limit: int, progress: Progress = silent, budget: float = BUDGET) -> Costs:
    """Measure time, memory and accuracy of every implementation on random q, k, v of shape (H, G, E) at increasing
    context lengths.

    After a warm-up run, the implementations are timed alternately. The budget is in seconds. Each context length gets a
    part of the remaining budget in proportion to its length; the next length is measured only if the last one leaves
    time for it.
    """
    H, G, E = shape
    lengths, costs, exact = lengths_of(limit), [], []
    start = time.perf_counter()
    total, done = sum(lengths), 0
    for n, length in enumerate(lengths):
        progress(done, total, "")
        q, k, v = random_qkv(H, G, length, E)
        ways, began = ways_at(H, length, E), time.perf_counter()
        peaks = {}
        for way in ways:
            peaks[way] = peak_bytes(WAYS[way], q, k, v)
            progress(done, total, "")
        share = length / sum(lengths[n:])
        until = began + share * max(start + budget - began, 0)
        seconds = _turns(ways, (q, k, v), until, lambda done=done: progress(done, total, ""))
        costs += [
            KernelCost(way, length, Times(tuple(seconds[way])), peaks[way], matrix_bytes(way, H, length, E))
            for way in ways
        ]
        exact.append((length, exactness(q, k, v, ways)))
        done += length
        took = time.perf_counter() - began
        if n + 1 < len(lengths) and time.perf_counter() + 2 * took > start + 2 * budget:
            break
    return Costs(H, G, E, tuple(costs), tuple(exact), torch.get_num_threads(), os.environ.get("OMP_WAIT_POLICY", ""))


def _turns(ways: Sequence[str], qkv: tuple[Tensor, Tensor, Tensor], until: float, report) -> dict[str, list[float]]:
    """Time the implementations alternately until the deadline, for at least FEWEST rounds. Returns the seconds by name.

    `peak_bytes` has already warmed them up.
    """
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for done in range(1, ROUNDS + 1):
        for way in ways:
            began = time.perf_counter()
            WAYS[way](*qkv)
            seconds[way].append(time.perf_counter() - began)
            report()
        if done >= FEWEST and time.perf_counter() + sum(each[-1] for each in seconds.values()) > until:
            break
    return seconds


def growth(costs: Sequence[KernelCost], way: str) -> float | None:
    """Fit the exponent of T in the growth of the time over the last three context lengths.

    It is the least-squares slope of ln time on ln T; None for a single length.
    """
    rows = [cost for cost in costs if cost.way == way][-3:]
    if len(rows) < 2:
        return None
    x, y = [math.log(row.length) for row in rows], [math.log(row.seconds.median) for row in rows]
    return statistics.linear_regression(x, y).slope
