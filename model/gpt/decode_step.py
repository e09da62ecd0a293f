"""A few tokens through a model by the compiled loops of `model.kernels.compiled`, as generation needs them.

The same numbers as those of `Transformer.trunk` and `logits`, to rounding: for models of full attention with dense MLPs
whose matrices are float32 on the CPU, or of 8 bits.
"""

import contextlib
import math
import time
import weakref
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.layers import MLPS
from model.gpt.linear import PACKED_ROWS, pack
from model.gpt.norm import Norm
from model.gpt.passes import attend_fused
from model.kernels import ready, remembered

MOST_ROWS = 16  # more are a matter for torch's products
WAYS = ("torch", "alone", "threads")  # how a step can be computed: by torch, compiled on one thread, on all
AGAIN = 600.0  # seconds after which it is tried again whether one thread is fastest
_NONE = np.empty(0, np.float32)
_ROUNDS = range(3, 10)  # of a trial: by turns, so that a slow moment hits all
_ALIKE = 1.1  # the second least time is at most so many times the least where that can be relied on
_HOPELESS = 3.0  # times as long as the fastest so far: it is not tried again
_BEHIND = 1.5  # the same once there are several times of each

Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]  # weight [out, in] in float32 or int8, scale and bias [out] or empty


@dataclass(frozen=True)
class Place:
    """Where some of a step's rows stand: so many tokens of each of a cache's texts, after those that it holds."""

    cache: KVCache
    tokens: int
    cos: np.ndarray  # of their positions, [T, d_rotary / 2]; [T, 0] where nothing is turned
    sin: np.ndarray

    @staticmethod
    def of(cache: KVCache, tokens: int, rope: tuple[Tensor, Tensor] | None) -> "Place":
        """The place of the next tokens, with the angles of their positions, `rope_table`."""
        none = np.empty((tokens, 0), np.float32)
        return Place(cache, tokens, *((none, none) if rope is None else (part.numpy() for part in rope)))


@dataclass(frozen=True)
class _Layer:
    """A block's numbers, as the compiled loops take them."""

    read: tuple  # of compiled.read: norm1 and the product of queries, keys and values
    attend: tuple  # of compiled.attention: gains of queries and keys, and eps
    write: tuple  # of compiled.write: o, both norms, and the MLP
    sizes: tuple[int, int]  # numbers of a row of queries, keys and values, and of the heads' outputs


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """A model's numbers where they lie, none of them copied, and what was the fastest way for so many rows."""

    layers: tuple[_Layer, ...]
    head: tuple  # of compiled.read: final norm and output head
    vocab: int
    width: int  # of the stream
    fastest: dict[int, str] = field(default_factory=dict)  # rows: one of WAYS
    until: dict[int, float] = field(default_factory=dict)  # rows: seconds of the clock up to which that holds

    def name(self, rows: int) -> str:
        """What decides how long a step of so many texts takes: "1 row(s): 30 x float32 960x576, ..."."""
        matrices = [part for layer in self.layers for part in (*layer.read, *layer.write)] + [*self.head]
        named = [f"{part.dtype} {'x'.join(map(str, part.shape))}" for part in matrices if getattr(part, "ndim", 0) == 2]
        return f"{rows} row(s): " + ", ".join(f"{count} x {each}" for each, count in Counter(named).items())

    def blocks(self, x: Tensor, places: Sequence[Place], way: str) -> Tensor:
        """All blocks; keys and values are put after those in the caches. The places' tokens x [N, D] -> [N, D]"""
        self._check(x, places)
        stream = np.array(x.numpy(), order="C")
        kept = [(place.cache.k.numpy(), place.cache.v.numpy()) for place in places]  # [L, B, G, S, E] each
        with _loops(way) as (loops, threads):
            for number, layer in enumerate(self.layers):
                qkv, z = (np.empty((len(stream), size), np.float32) for size in layer.sizes)
                loops.read(stream, *layer.read, qkv, threads)
                start = 0
                for place, (keys, values) in zip(places, kept, strict=True):
                    shape, end = (keys.shape[1], place.tokens, -1), start + keys.shape[1] * place.tokens
                    own, out = qkv[start:end].reshape(shape), z[start:end].reshape(shape)  # both where they lie
                    at = keys[number], values[number], place.cache.length, place.cos, place.sin
                    loops.attention(own, *at, *layer.attend, out, threads)
                    start = end
                loops.write(stream, z, *layer.write, threads)
        return torch.from_numpy(stream)

    def following(self, x: Tensor, rope: tuple[Tensor, Tensor] | None, cache: KVCache, way: str) -> Tensor:
        """`blocks` of the next tokens of one cache's texts. x [B, T, D] -> [B, T, D]"""
        return self.blocks(x.flatten(0, 1), [Place.of(cache, x.shape[1], rope)], way).view_as(x)

    def _check(self, x: Tensor, places: Sequence[Place]) -> None:
        """Raise ValueError for what the loops would read or write beyond: they look at no bounds."""
        rows = sum(place.cache.batch * place.tokens for place in places)
        full = any(place.cache.length + place.tokens > place.cache.capacity for place in places)
        if x.shape != (rows, self.width) or full:
            raise ValueError(f"{tuple(x.shape)} is no step of {rows} rows of {self.width}, or a cache is full")

    def logits(self, x: Tensor, way: str) -> Tensor:
        """Final norm and output head. x [..., D] -> [..., V]"""
        rows = np.ascontiguousarray(x.reshape(-1, self.width).numpy())
        logits = np.empty((len(rows), self.vocab), np.float32)
        with _loops(way) as (loops, threads):
            loops.read(rows, *self.head, logits, threads)
        return torch.from_numpy(logits).view(*x.shape[:-1], -1)


@contextlib.contextmanager
def _loops(way: str) -> Iterator[tuple[ModuleType, int]]:
    """The compiled loops and the number of their threads, until the end of the block."""
    if way == "alone":
        yield ready.now(), 1
    else:
        with ready.threads() as threads:
            yield ready.now(), threads


_STEPS: "weakref.WeakKeyDictionary[nn.Module, DecodeStep]" = weakref.WeakKeyDictionary()
_FOLDERS: "weakref.WeakKeyDictionary[nn.Module, Callable[[], Path]]" = weakref.WeakKeyDictionary()


def step_of(model: nn.Module) -> DecodeStep | None:
    """A model's compiled step; None for one that has none, or as long as nothing is compiled.

    Its weights must be in place: it has one from the time it was joined and tuned.
    """
    step = _STEPS.get(model) or _built(model)
    if step is None:
        return None
    step = _STEPS.setdefault(model, step)
    return None if ready.soon() is None else step


def pack_where_needed(model: nn.Module, rows: int) -> None:
    """Reorder weights for torch's products of so many rows, unless the compiled loops will read them as they are."""
    if rows >= PACKED_ROWS and (ready.never() or (model not in _STEPS and _built(model) is None)):
        pack(model)


def _built(model: nn.Module) -> DecodeStep | None:
    config, head = model.config, _matrix(model.unembed)
    if config.n_expert > 1 or {*config.mixers} != {"softmax"} or head is None:
        return None
    layers = []
    for block in model.blocks:
        attn, mlp = block.attn, block.mlp
        ups = mlp.joint if mlp.gate is not None else (mlp.up,)
        matrices = [_matrix(each) for each in (*attn.joint, attn.o, *ups, mlp.down)]
        if None in matrices or len(matrices) != 4:  # a model that was not joined
            return None
        qkv, o, up, down = matrices
        gains = [_NONE if each is None else each.weight.detach().numpy() for each in (attn.q_norm, attn.k_norm)]
        norm1, norm2 = _norm(block.norm1), _norm(block.norm2)
        mlp_of = (*up, [*MLPS].index(config.mlp), *down)
        layers.append(
            _Layer(
                (not block.post_norm, *norm1, *qkv),
                (*gains, block.norm1.eps),
                (*o, *norm1, *norm2, *mlp_of, block.post_norm, block.parallel),
                (len(qkv[0]), o[0].shape[1]),
            )
        )
    final = (False, _NONE, _NONE, 0.0, False) if model.final_norm is None else (True, *_norm(model.final_norm))
    return DecodeStep(tuple(layers), (*final, *head), *head[0].shape)


def _matrix(layer: nn.Module) -> Matrix | None:
    """A layer's numbers; None for one whose product is not a matter for the compiled loops."""
    arrays = getattr(layer, "arrays", None)
    return None if arrays is None else arrays()


def _norm(norm: Norm) -> tuple[np.ndarray, np.ndarray, float, bool]:
    """A norm's gain, bias or none, eps, and whether it is centred."""
    bias = _NONE if norm.bias is None else norm.bias.detach().numpy()
    return norm.weight.detach().numpy(), bias, norm.eps, norm.kind == "layernorm"


def way(model: nn.Module, rows: int) -> tuple[DecodeStep, str] | None:
    """The compiled step and how it is fastest for so many rows; None where torch is, or where there is no such step.

    It is tried at the first use of a number of rows, by all of WAYS in turn, unless that is remembered. Where one
    thread was fastest it is tried again after a while.
    """
    step = step_of(model) if rows <= MOST_ROWS and not torch.is_grad_enabled() else None
    if step is None:
        return None
    tried = 1 << (rows.bit_length() - 1)  # 1, 2, 4, 8 or 16
    if tried not in step.fastest or time.monotonic() >= step.until.get(tried, math.inf):
        step.fastest[tried] = _fastest(model, step, tried)
        step.until[tried] = math.inf if lasts(step.fastest[tried]) else time.monotonic() + AGAIN
    return None if step.fastest[tried] == "torch" else (step, step.fastest[tried])


def remember(model: nn.Module, folder: Callable[[], Path] = ready.folder) -> None:
    """Have what the trials of a model find read from a file in a folder, and what they find anew written to it.

    The folder is asked for at the first trial: where nothing can be compiled there is none.
    """
    _FOLDERS[model] = folder


def lasts(how: object) -> bool:
    """Whether a way that was fastest will be: one thread is, too, while something else takes the other cores."""
    return how in WAYS and (how != "alone" or torch.get_num_threads() == 1)


def _fastest(model: nn.Module, step: DecodeStep, rows: int) -> str:
    folder, name = _FOLDERS.get(model), step.name(rows)
    path = None if folder is None else remembered.file_in(folder(), "steps")
    known = {} if path is None else remembered.entries(path)
    if lasts(known.get(name)):
        return known[name]
    times, reliable = trial(model, rows)
    best = min(times, key=times.__getitem__)
    if path is not None and reliable and lasts(best):
        remembered.write_entries(path, remembered.entries(path) | {name: best})
    return best


def taken(model: nn.Module, ids: Tensor, cache: KVCache, how: str) -> Tensor:
    """Logits of tokens that continue what a cache holds, in one of WAYS. ids [B, T] -> [B, T, V]"""
    if how == "torch":
        return model.logits(model.trunk(ids, cache=cache, attend=attend_fused))
    step, (B, T) = step_of(model), ids.shape
    cache.reserve(B, T)
    run = model.prepare(cache.length, T)
    stream = step.following(model.embed_tokens(ids, cache.length, run), run.rope, cache, how)
    cache.advance(T)
    return step.logits(stream, how)


def trial(model: nn.Module, rows: int) -> tuple[Mapping[str, float], bool]:
    """Least seconds of a step of so many texts, from their tokens to the logits, by each of WAYS; are they reliable?

    They are once every way that may be the fastest has taken its least time twice.
    """
    ids, cache = torch.zeros(rows, 1, dtype=torch.long), KVCache.empty(model.config, rows, 1)
    times: dict[str, list[float]] = {how: [] for how in WAYS}  # each ascending
    trying: Sequence[str] = WAYS
    reliable = False
    with torch.inference_mode():
        for done in range(1, _ROUNDS.stop):
            for how in trying:
                cache.truncate(0)
                began = time.perf_counter()
                taken(model, ids, cache, how)
                insort(times[how], time.perf_counter() - began)
            least = min(each[0] for each in times.values())
            most = least * (_HOPELESS if done < _ROUNDS.start else _BEHIND)
            trying = [how for how in trying if times[how][0] < most]
            reliable = done >= _ROUNDS.start and all(times[how][1] < _ALIKE * times[how][0] for how in trying)
            if reliable:
                break
    return {how: each[0] for how, each in times.items()}, reliable
