"""Duration of a forward pass by component, measured on the loaded model by hooks between the components."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from model.anatomy.flops import GROUPS, PassSize, operations
from model.generation.cache_costs import Times
from model.gpt.cache import KVCache, State
from model.gpt.mixers.attention import Attention
from model.gpt.mixers.gated_delta import GatedDelta
from model.gpt.mixers.linear_attention import LinearAttention
from model.gpt.mlp import NoMLP
from model.gpt.passes import Attend, attend_fused
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import between, nonempty, public

# {component: its operations in model/anatomy/flops.py}, in the order of the computation.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "embed": ("embed", "positions", "segments"),
    "norms": ("embed_norm", "norm1", "after1", "norm2", "after2", "final_norm", "head_norm"),
    "qkv": ("q", "k", "v", "v_norm", "qk_norm", "rope"),  # also includes writing keys and values to the cache
    "attention": GROUPS["attention"],
    "in_proj": ("in_proj",),
    "state": GROUPS["state"],
    "o": ("gate_o", "o", "out_proj", "beside"),
    "mlp": GROUPS["mlp"],
    "head": GROUPS["head"],
}
REST = "rest"  # residual additions, and overhead between the components
ROUNDS = 9  # maximum number of timed rounds
FEWEST = 3  # minimum number of timed rounds within the budget
BUDGET = 14.0  # seconds for all measurements

Stamp = tuple[str, float]  # (component that just ended, time)


@dataclass(frozen=True)
class ComponentTime:
    """One component: its repeated timings, and its FLOPs (matrix products, without masked pairs)."""

    key: str
    times: Times
    flops: int

    @property
    def rate(self) -> float | None:
        """FLOPs per second at the median; None for a component without matrix products."""
        return self.flops / self.times.median if self.flops and self.times.median > 0 else None


@dataclass(frozen=True)
class Forward:
    """Timings of one kind of forward pass: its components and the remainder, which sum to `clocked`; `plain` is without
    hooks.
    """

    reading: PassSize
    parts: tuple[ComponentTime, ...]  # in the order of COMPONENTS, then REST
    clocked: Times
    plain: Times

    @property
    def seconds(self) -> float:
        """The sum of the parts' median durations, the basis of their fractions."""
        return sum(part.times.median for part in self.parts)

    @property
    def flops(self) -> int:
        """Total FLOPs of all parts."""
        return sum(part.flops for part in self.parts)


@dataclass(frozen=True)
class Clocked:
    """Timings of prefill and decoding, and their setup."""

    prompt: Forward
    step: Forward | None  # one more token, with the prompt in the cache; None if there is no next token
    threads: int
    waiting: str  # OMP_WAIT_POLICY; "" if unset


@contextmanager
def clock(model: Transformer) -> Iterator[tuple[list[Stamp], Attend]]:
    """Yield the list of time stamps and the attention kernel for a forward pass; the hooks are removed at the end.

    Hooks on the modules of each block record when a module begins and ends. Only one forward pass may run at a time.
    Layers whose scores have rules (a window, a cap, ALiBi, sinks, both directions) do not call the kernel: there, the
    rotation and the cache are timed with the attention.
    """
    stamps: list[Stamp] = []

    def mark(name: str) -> Callable[..., None]:
        return lambda *_: stamps.append((name, time.perf_counter()))

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        stamps.append(("qkv", time.perf_counter()))
        z = attend_fused(layer, q, k, v)
        stamps.append(("attention", time.perf_counter()))
        return z

    hooks = [model.embed.register_forward_pre_hook(mark(REST))]
    try:
        for index, block in enumerate(model.blocks):
            hooks.append(
                block.register_forward_pre_hook(mark("embed" if index == 0 and model.embed_norm is None else REST))
            )
            for name, module in _timed_modules(block):
                hooks += [module.register_forward_pre_hook(mark(REST)), module.register_forward_hook(mark(name))]
            for module, before, after in _seams(block.attn):
                hooks += [module.register_forward_pre_hook(mark(before))] if before else []
                hooks += [module.register_forward_hook(mark(after))] if after else []
        outside = (
            ("norms", model.embed_norm, "embed"),
            ("norms", model.final_norm, REST),
            ("head", model.head_dense, REST),
            ("norms", model.head_norm, "head"),
            ("head", model.unembed, REST),
        )
        for name, module, before in outside:
            if module is not None:
                hooks += [module.register_forward_pre_hook(mark(before)), module.register_forward_hook(mark(name))]
        yield stamps, attend
    finally:
        for hook in hooks:
            hook.remove()


def _timed_modules(block: nn.Module) -> list[tuple[str, nn.Module]]:
    """List the modules timed as a whole. What runs inside `attn` before o is timed separately."""
    norms = (("norms", norm) for norm in (block.norm1, block.after1, block.norm2, block.after2) if norm is not None)
    mlp = [] if isinstance(block.mlp, NoMLP) else [("mlp", block.mlp)]
    entry = [] if block.entry is None else [("mlp", block.entry)]
    return [*norms, ("o", block.attn), *mlp, *entry]


def _seams(mixer: nn.Module) -> list[tuple[nn.Module, str, str]]:
    """List the modules inside a mixer between its components, with the components that end before and with each; "" for
    none.
    """
    seams: list[tuple[nn.Module, str, str]] = []
    if isinstance(mixer, Attention):
        if not mixer.scoring.plain:
            seams += [(module, "", "qkv") for module in _last_of_keys(mixer)]
        if mixer.gate is not None or not mixer.scoring.plain:
            seams.append((mixer.o if mixer.gate is None else mixer.gate, "attention", ""))
        return seams if mixer.beside is None else [*seams, (mixer.o, "", "o"), *_seams(mixer.beside)]
    if isinstance(mixer, LinearAttention):
        seams += [(module, "", "qkv") for module in _last_of_keys(mixer)]
    else:
        seams.append((mixer.qkv if isinstance(mixer, GatedDelta) else mixer.in_proj, REST, "in_proj"))
    return [*seams, (mixer.o, "state", "")]


def _last_of_keys(mixer: nn.Module) -> list[nn.Module]:
    """List the modules after which queries, keys and values are there, but for a rotation."""
    if isinstance(mixer, Attention) and mixer.source is not None:  # with the keys and values of an earlier layer
        return [mixer.q if mixer.q_norm is None else mixer.q_norm]
    return [each for each in (mixer.v, mixer.k_norm, *mixer.joint) if each is not None]


def durations(stamps: Sequence[Stamp], start: float, end: float) -> dict[str, float]:
    """Compute the seconds of each component and of the remainder; they sum to end - start."""
    seconds = dict.fromkeys((*COMPONENTS, REST), 0.0)
    last = start
    for name, at in stamps:
        seconds[name] += at - last
        last = at
    seconds[REST] += end - last
    return seconds


@dataclass(frozen=True, eq=False)
class _Bench:
    """A forward pass that is timed repeatedly."""

    model: Transformer
    ids: Tensor  # [1, T] tokens that follow the cached ones
    cache: KVCache | None  # None for a model that reads in both directions
    reading: PassSize
    states: Mapping[int, State] = field(default_factory=dict)  # those after the cached tokens

    def run(self, attend: Attend = attend_fused) -> Tensor:
        """Compute the logits of the last positions, after the cached tokens from the prompt's forward pass."""
        if self.cache is not None:
            self.cache.length, self.cache.states = self.reading.S - self.reading.T, self.states
        x = self.model.trunk(self.ids, cache=self.cache, attend=attend)
        if self.model.config.headless:
            return x
        return self.model.logits(x[:, self.reading.T - self.reading.logits :])

    def plain(self) -> float:
        """Time one forward pass, in seconds."""
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def clocked(self) -> tuple[float, dict[str, float]]:
        """Time one forward pass with hooks. Returns the total seconds and the seconds of each component."""
        with clock(self.model) as (stamps, attend):
            start = time.perf_counter()
            self.run(attend)
            end = time.perf_counter()
        return end - start, durations(stamps, start, end)


@public(ids=nonempty, budget=between(0, 1e6))
@torch.inference_mode()
def measure(
    model: Transformer, ids: Sequence[int], every: bool = True, progress: Progress = silent, budget: float = BUDGET
) -> Clocked:
    """Measure the seconds by component of a prompt's forward pass, and of that of one more token with the prompt in the
    cache.

    The prompt is processed with an empty cache. The unembedding runs for all of its tokens if `every` is true,
    otherwise for the last one. The extra token repeats the last token after all others (after itself for a prompt of
    one token). After one warm-up round, each round runs both forward passes without and with hooks, until `budget`
    seconds are used. A model that reads in both directions has no step. Raises InputError for several kinds of mixers
    besides attention.
    """
    until, T = time.perf_counter() + budget, len(ids)
    text = torch.tensor([list(ids)])
    reading, cached = PassSize(T, T, T if every else 1), max(T - 1, 1)
    operations(model.config, reading)  # raises before anything is timed
    if model.config.two_way:
        return _rounds([_Bench(model, text, None, reading)], until, progress)
    room, step = KVCache.empty(model.config, 1, max(T, cached + 1)), PassSize(1, min(cached + 1, model.config.n_ctx))
    if not model.config.rewinds:  # the states before the extra token
        model.trunk(text[:, : step.S - 1], cache=room, attend=attend_fused)
    benches = _Bench(model, text, room, reading), _Bench(model, text[:, -1:], room, step, room.states)
    return _rounds(benches, until, progress)


def _rounds(benches: Sequence[_Bench], until: float, progress: Progress) -> Clocked:
    """Run the rounds. The prompt goes first, since it fills the cache for the extra token."""
    rounds: list[list[tuple[float, float, dict[str, float]]]] = [[] for _ in benches]
    began = time.perf_counter()
    for done in range(ROUNDS + 1):  # the first round is a warm-up
        for bench, repeats in zip(benches, rounds, strict=True):
            progress(done, ROUNDS + 1, "")
            plain = bench.plain()
            progress(done, ROUNDS + 1, "")
            total, parts = bench.clocked()
            if done:
                repeats.append((plain, total, parts))
        now = time.perf_counter()
        longer = now + (now - began) / (done + 1)
        if done and (now > until or (done >= FEWEST and longer > until)):
            break
    forward, *steps = (_forward(bench, repeats) for bench, repeats in zip(benches, rounds, strict=True))
    return Clocked(forward, steps[0] if steps else None, torch.get_num_threads(), os.environ.get("OMP_WAIT_POLICY", ""))


def _forward(bench: _Bench, rounds: Sequence[tuple[float, float, dict[str, float]]]) -> Forward:
    work = operations(bench.model.config, bench.reading)
    parts = []
    present = {op.key for op in work}
    for key in (*(name for name, keys in COMPONENTS.items() if not present.isdisjoint(keys)), REST):
        flops = sum(op.all_useful for op in work if op.key in COMPONENTS.get(key, ()))
        parts.append(ComponentTime(key, Times(tuple(seconds[key] for _, _, seconds in rounds)), flops))
    plain, clocked = (Times(tuple(each[index] for each in rounds)) for index in (0, 1))
    return Forward(bench.reading, tuple(parts), clocked, plain)
