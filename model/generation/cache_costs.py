"""Memory cost of a KV cache by formula, and the time it saves, measured on this machine."""

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.mixers.names import LINEAR
from model.gpt.mixers.needs import need_rewinding
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import between, nonempty, public, whole

LENGTHS = (16, 32, 64, 128, 256, 512)  # context lengths in tokens
ITEM = 4  # bytes of a float32
ROUNDS = 9  # maximum number of rounds of each measurement
FEWEST = 3  # minimum number of rounds, unless the time is up earlier
BUDGET = 14.0  # maximum seconds for all measurements
_PROMPT = 0.15  # fraction of the budget for the prompt; the rest is divided in proportion to the roots of the lengths


@dataclass(frozen=True)
class Times:
    """Seconds of repeated measurements of one operation."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and third quartiles."""
        if len(self.seconds) == 1:
            return self.seconds * 2
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third


@dataclass(frozen=True)
class TokenTimes:
    """Times of the last token of a context of `length` tokens, with and without the cache."""

    length: int
    cached: Times  # one token is processed, the others are cached
    whole: Times | None = None  # all tokens are processed; None if there was not enough time
    gap: float | None = None  # largest absolute difference between the logits with and without the cache
    agree: bool | None = None  # whether both predict the same most likely token

    @property
    def ratio(self) -> float | None:
        """Ratio of the median time without the cache to that with it."""
        return self.whole.median / self.cached.median if self.whole else None


@dataclass(frozen=True)
class MeasuredCosts:
    """The measurements and the conditions under which they were taken."""

    rows: tuple[TokenTimes, ...]
    prompt: int  # number of tokens of the prompt
    prefill: Times  # all tokens of the prompt in one pass, with an empty cache
    step: Times  # the prompt's last token, with the others cached
    threads: int
    waiting: str  # value of OMP_WAIT_POLICY, "" if it is not set; it determines how threads wait between two products


@dataclass(frozen=True, eq=False)
class Bench:
    """A model, the text for the measurement, its cache, and a deadline."""

    model: Transformer
    ids: Tensor  # [1, S]
    cache: KVCache
    until: float  # deadline by time.perf_counter()
    report: Callable[[], None]  # called between two rounds; may raise an exception to cancel

    def step(self, length: int) -> Tensor:
        """Compute the logits of the last token of a context with the others cached, then restore the cache. -> [V]"""
        logits = last_logits(self.model, self.ids[:, length - 1 : length], self.cache)
        self.cache.truncate(length - 1)
        return logits


@public(batch=whole(1, 1 << 40), length=whole(0, 1 << 40), heads=whole(1))
def cache_bytes(config: ModelConfig, batch: int, length: int, heads: int | None = None) -> int:
    """Return the bytes of keys and values, 2 L B G S E x 4, with L the number of layers of full attention.

    `heads` replaces G, for comparisons.
    """
    heads = config.n_kv_head if heads is None else heads
    return 2 * kept_layers(config) * batch * heads * length * config.d_head * ITEM


def kept_layers(config: ModelConfig) -> int:
    """Return the number of layers that keep the keys and values of all tokens: those with full attention."""
    return len(config.kept)


def state_sizes(config: ModelConfig) -> dict[str, int]:
    """Return how many numbers a layer keeps that do not grow with the length of the text, by mixer.

    H E E for linear attention, retention and the delta rule; for Mamba and Mamba 2 I N, and the K - 1 last inputs of
    their convolution; for the gated delta rule n E E' and the same of q, k and v; for a short convolution D (K - 1);
    for a sliding window the keys and values of W - 1 tokens, once the text has that many.
    """
    return dict.fromkeys(LINEAR, config.n_head * config.d_head**2) | {
        "mamba": config.d_inner * (config.d_state + config.d_conv - 1),
        "mamba2": config.d_ssm * config.d_state
        + (config.d_ssm + 2 * config.ssm_groups * config.d_state) * (config.d_conv - 1),
        "gated_delta": config.n_delta_head * config.d_delta_key * config.d_delta_value
        + config.delta_inputs * (config.d_conv - 1),
        "short_conv": config.d_model * (config.d_conv - 1),
        "sliding_window": 2
        * (config.n_kv_head_local or config.n_kv_head)
        * ((config.window or 1) - 1)
        * (config.d_head_local or config.d_head),
    }


def state_bytes(config: ModelConfig, batch: int) -> int:
    """Return the bytes kept by the layers without a growing cache: see `state_sizes`."""
    numbers = state_sizes(config)
    beside = config.n_layer * numbers["mamba2"] if config.ssm_beside else 0
    return batch * ITEM * (beside + sum(numbers[config.mixer_of(layer)] for layer in config.stateful))


def tensor_bytes(config: ModelConfig, batch: int, length: int) -> tuple[tuple[int, ...], int] | None:
    """Return the shape of the keys [L, B, G, S, E], and the bytes of keys and values, of the cache used in generation.

    The cache is allocated and freed without being written, so it occupies no physical memory. None if it cannot be
    allocated.
    """
    try:
        cache = KVCache.empty(config, batch, length)
    except RuntimeError:
        return None
    return tuple(cache.k.shape), cache.k.nbytes + cache.v.nbytes


def lengths_of(limit: int) -> tuple[int, ...]:
    """Return the context lengths to measure, up to the limit."""
    return tuple(length for length in LENGTHS if length <= limit) or (limit,)


@public(ids=nonempty, limit=whole(1), budget=between(0, 1e6))
@torch.inference_mode()
def measure(
    model: Transformer, ids: Sequence[int], limit: int, progress: Progress = silent, budget: float = BUDGET
) -> MeasuredCosts:
    """Time one more token with and without the cache, at increasing context lengths, and compare the logits.

    The text is the prompt `ids`, repeated. The two variants are timed alternately, after one warm-up step. If `budget`
    seconds are not enough, there are fewer rounds, and the longest contexts are timed only with the cache.
    """
    need_rewinding(model.config)
    lengths = lengths_of(limit)
    most = max(lengths[-1], min(len(ids), limit))
    text = torch.tensor([[ids[i % len(ids)] for i in range(most)]])
    total, done = 1 + len(lengths), 0

    def report() -> None:
        progress(done, total, "")

    report()
    start = time.perf_counter()
    cache = KVCache.empty(model.config, 1, most)
    bench = Bench(model, text, cache, start + budget, report)
    prefill, step = _prompt(bench, min(len(ids), limit), start + _PROMPT * budget)
    rows: list[TokenTimes] = []
    for at, length in enumerate(lengths):
        done += 1
        report()
        part = math.sqrt(length) / sum(math.sqrt(each) for each in lengths[at:])
        began = time.perf_counter()
        rows.append(_row(bench, length, rows, began + part * max(bench.until - began, 0)))
    waiting = os.environ.get("OMP_WAIT_POLICY", "")
    return MeasuredCosts(tuple(rows), min(len(ids), limit), prefill, step, torch.get_num_threads(), waiting)


def last_logits(model: Transformer, ids: Tensor, cache: KVCache | None = None) -> Tensor:
    """Compute the logits after the last token; the output head processes only that token. ids [1, T] -> [V]"""
    return model.logits(model.trunk(ids, cache=cache)[:, -1:])[0, -1]


def _time(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    start = time.perf_counter()
    logits = work()
    return time.perf_counter() - start, logits


def _turns(bench: Bench, works: Sequence[Callable[[], Tensor]], until: float) -> list[list[float]]:
    """Time the functions alternately until the deadline, and return the seconds of each but the first, which only warms
    up.

    There are at least FEWEST rounds, unless the deadline of all measurements has passed.
    """
    results: list[list[float]] = [[] for _ in works]
    for done in range(1, ROUNDS + 1):
        for work, seconds in zip(works, results, strict=True):
            seconds.append(_time(work)[0])
        bench.report()
        now = time.perf_counter()
        if now > bench.until or (done >= FEWEST and now + sum(seconds[-1] for seconds in results) > until):
            break
    return results[1:]


def _prompt(bench: Bench, T: int, until: float) -> tuple[Times, Times]:
    """Time the prompt of T tokens with an empty cache, and its last token alone with the others cached."""

    def prefill() -> Tensor:
        bench.cache.truncate(0)
        logits = last_logits(bench.model, bench.ids[:, :T], bench.cache)
        bench.cache.truncate(T - 1)
        return logits

    first = _time(prefill)[0]  # a single warm-up run, since a long prompt is slow
    if time.perf_counter() + first > until:
        steps = _turns(bench, [lambda: bench.step(T)] * 2, until)
        times = Times((first,)), Times(tuple(steps[0]))
    else:
        both = _turns(bench, [lambda: bench.step(T), prefill, lambda: bench.step(T)], until)
        times = tuple(Times(tuple(seconds)) for seconds in both)
    bench.cache.truncate(0)
    return times


def _row(bench: Bench, length: int, before: Sequence[TokenTimes], until: float) -> TokenTimes:
    """Measure one context length: fill the cache with all tokens but the last, then time both variants alternately."""
    cached = bench.cache.length
    if cached < length - 1:
        bench.model.trunk(bench.ids[:, cached : length - 1], cache=bench.cache)

    def step() -> Tensor:
        return bench.step(length)

    def all_tokens() -> Tensor:
        return last_logits(bench.model, bench.ids[:, :length])

    if not _whole_fits(bench, length, before):
        return TokenTimes(length, Times(tuple(_turns(bench, [step, step], until)[0])))
    with_cache, without = step(), all_tokens()
    both = [Times(tuple(seconds)) for seconds in _turns(bench, [step, step, all_tokens], until)]
    gap = float((with_cache - without).abs().max())
    return TokenTimes(length, *both, gap, bool(with_cache.argmax() == without.argmax()))


def _whole_fits(bench: Bench, length: int, before: Sequence[TokenTimes]) -> bool:
    """Return whether the remaining time probably suffices for a full pass at this length, extrapolated from the
    previous one.
    """
    if not before:
        return True
    if before[-1].whole is None:
        return False
    longer = length / before[-1].length
    return time.perf_counter() + (1 + FEWEST) * longer * before[-1].whole.median < bench.until
