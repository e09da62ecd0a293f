"""A forward pass over a few tokens with the compiled loops of `model.kernels.compiled`, for generation.

Up to rounding, the results equal those of `Transformer.trunk` and `logits`. Models must have full attention and dense
MLPs, with matrices that are float32 on the CPU, or 8-bit. If a file stores float32 matrices as integers or in bfloat16,
the loops may read these codes instead: the same weights in fewer bytes (model.kernels.coded).
"""

import contextlib
import copy
import functools
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from model.errors import PlaygroundError
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.layers import MLPS
from model.gpt.linear import PACKED_ROWS, joined, pack
from model.gpt.norm import Norm
from model.kernels import ready
from model.kernels.coded import Codes, Strips, digest, have_room, in_strips, shortened

# Implementations of a decode step: torch, or compiled on one thread or all, from the weights or from their codes.
PLAIN = ("torch", "alone", "threads")
WAYS = (*PLAIN, "codes alone", "codes threads")
_WRITE = ("o", "up", "down")  # the matrices used in one call of compiled.write
_NONE = np.empty(0, np.float32)
_MLPS = [*MLPS][:4]  # those of compiled.write, in its order
_SUPPORTED = {  # fields of ModelConfig with the only value that the loops compute
    "n_expert": 1,
    "shared_norm": False,
    "qk_norm_over": "head",
    "qk_norm_kind": "rmsnorm",
    "qkv_limit": None,
    "query_factor": 1.0,
    "rope_pairs": "halves",
    "unrotated": (),
    "without_mlp": (),
    "residual_multiplier": 1.0,
    "head_bias": False,
    "logit_multiplier": 1.0,
    "logit_cap": None,
}

# Weight [out, in] in float32 or int8, scale and bias, each [out] or empty; or codes and scales in strips, and bias.
Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]
Named = Callable[[str, nn.Module], Matrix | None]  # (name of a matrix in `parts_of`, its layer) -> its arrays


@dataclass(frozen=True)
class CacheRows:
    """The rows of a step that belong to one cache: `tokens` new tokens for each of its texts, after the cached ones."""

    cache: KVCache
    tokens: int
    cos: np.ndarray  # cosines at the tokens' positions, [T, d_rotary / 2]; [T, 0] without RoPE
    sin: np.ndarray

    @staticmethod
    def of(cache: KVCache, tokens: int, rope: tuple[Tensor, Tensor] | None) -> "CacheRows":
        """Return the rows of the next tokens, with the rotary angles of their positions from `rope_table`."""
        none = np.empty((tokens, 0), np.float32)
        return CacheRows(cache, tokens, *((none, none) if rope is None else (part.numpy() for part in rope)))


@dataclass(frozen=True)
class _Layer:
    """The arrays of a layer, in the form that the compiled loops expect."""

    read: tuple  # arguments of compiled.read: norm1, and the matrix of queries, keys and values
    attend: tuple  # arguments of compiled.attention: gains of queries and keys, and eps
    write: tuple  # arguments of compiled.write: o, both norms, and the MLP


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The arrays of a model, in the form that the compiled loops expect."""

    layers: tuple[_Layer, ...]
    head: tuple  # arguments of compiled.read: final norm and output head
    sizes: tuple[int, int]  # row lengths of the joint queries, keys and values, and of the heads' outputs


class _FromCodes:
    """The arrays of a model with codes in place of weights, built on first use and valid as long as the weights are
    unchanged.
    """

    def __init__(self, codes: Codes | None, weights: Sequence[np.ndarray], model: "weakref.ref[nn.Module]") -> None:
        self._codes, self._weights, self._model = codes, weights, model
        self.has_codes = codes is not None  # False if there will never be codes
        self._numbers: _Numbers | None = None
        self._digest = ""  # digest of the weights from which the codes were computed
        self._lock = threading.Lock()

    def __call__(self) -> _Numbers | None:
        with self._lock:
            if self._codes is not None and self._numbers is None:
                self._numbers = self._build(self._codes)
                self._codes = self._codes if self._numbers else None
            return self._numbers

    def look(self) -> None:
        """Discard the codes if a weight has been changed in place since they were built."""
        if self._numbers is not None and digest(self._weights) != self._digest:
            self._numbers = self._codes = None

    def _build(self, codes: Codes) -> _Numbers | None:
        model, self._digest = self._model(), digest(self._weights)
        if model is None or codes.digest not in ("", self._digest):
            return None
        try:
            strips = codes.strips()
        except (OSError, PlaygroundError) as error:
            logging.getLogger(__name__).warning("Steps of generation read the weights, not their codes: %s", error)
            return None
        return _numbers_of(model, lambda name, layer: _coded(strips, name, layer)) if strips else None


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """The arrays of a model (not copied), the codes of its weights if available, and the fastest implementation by
    number of rows.
    """

    plain: _Numbers
    coded: _FromCodes
    vocab: int
    width: int  # width of the stream
    memory: tuple  # result of `_memory` at construction
    fastest: dict[int, str] = field(default_factory=dict)  # number of rows -> one of WAYS
    until: dict[int, float] = field(default_factory=dict)  # number of rows -> time.monotonic() at its expiry

    def name(self, rows: int) -> str:
        """Return a key of everything that affects the time of a step with `rows` texts: "1 row(s): 30 x float32
        960x576, ...".
        """
        named = [f"{each.dtype} {'x'.join(map(str, each.shape))}" for each in _weights(self.plain)]
        of = f"{rows} row(s){' with codes' if self.coded.has_codes else ''}: "
        return of + ", ".join(f"{count} x {each}" for each, count in Counter(named).items())

    def ways(self) -> Sequence[str]:
        """Return those of WAYS that are available for this step."""
        return WAYS if self.coded() else PLAIN

    def _numbers(self, way: str) -> _Numbers:
        return (self.coded() if way.startswith("codes") else None) or self.plain

    def blocks(self, x: Tensor, places: Sequence[CacheRows], way: str) -> Tensor:
        """Compute all layers, and append the keys and values to the caches. `x` are the tokens of all `places`, [N, D]
        -> [N, D]
        """
        self._check(x, places)
        stream = np.array(x.numpy(), order="C")
        kept = [(place.cache.k.numpy(), place.cache.v.numpy()) for place in places]  # [L, B, G, S, E] each
        numbers, start, own = self._numbers(way), 0, []
        qkv, z = (np.empty((len(stream), size), np.float32) for size in numbers.sizes)
        for place, (keys, values) in zip(places, kept, strict=True):
            shape, end = (keys.shape[1], place.tokens, -1), start + keys.shape[1] * place.tokens
            rows = qkv[start:end].reshape(shape), z[start:end].reshape(shape)  # views of both
            own.append((*rows, keys, values, place.cache.length, place.cos, place.sin))
            start = end
        with _loops(way) as (loops, threads):
            for number, layer in enumerate(numbers.layers):
                loops.read(stream, *layer.read, qkv, threads)
                for new, out, keys, values, length, cos, sin in own:
                    loops.attention(new, keys[number], values[number], length, cos, sin, *layer.attend, out, threads)
                loops.write(stream, z, *layer.write, threads)
        return torch.from_numpy(stream)

    def following(self, x: Tensor, rope: tuple[Tensor, Tensor] | None, cache: KVCache, way: str) -> Tensor:
        """Compute `blocks` for the next tokens of the texts of one cache. x [B, T, D] -> [B, T, D]"""
        return self.blocks(x.flatten(0, 1), [CacheRows.of(cache, x.shape[1], rope)], way).view_as(x)

    def _check(self, x: Tensor, places: Sequence[CacheRows]) -> None:
        """Raise ValueError for arguments with which the loops, which check no bounds, would access memory out of
        bounds.
        """
        rows = sum(place.cache.batch * place.tokens for place in places)
        full = any(place.cache.length + place.tokens > place.cache.capacity for place in places)
        if x.shape != (rows, self.width) or full:
            raise ValueError(f"{tuple(x.shape)} is no step of {rows} rows of {self.width}, or a cache is full")

    def logits(self, x: Tensor, way: str) -> Tensor:
        """Apply the final norm and the output head. x [..., D] -> [..., V]"""
        rows = np.ascontiguousarray(x.reshape(-1, self.width).numpy())
        logits = np.empty((len(rows), self.vocab), np.float32)
        with _loops(way) as (loops, threads):
            loops.read(rows, *self._numbers(way).head, logits, threads)
        return torch.from_numpy(logits).view(*x.shape[:-1], -1)


@contextlib.contextmanager
def _loops(way: str) -> Iterator[tuple[ModuleType, int]]:
    """Yield the compiled loops and their number of threads."""
    if way.endswith("alone"):
        yield ready.now(), 1
    else:
        with ready.threads() as threads:
            yield ready.now(), threads


_STEPS: "weakref.WeakKeyDictionary[nn.Module, DecodeStep]" = weakref.WeakKeyDictionary()
_CODES: "weakref.WeakKeyDictionary[nn.Module, Codes]" = weakref.WeakKeyDictionary()


def step_of(model: nn.Module) -> DecodeStep | None:
    """Return a model's compiled step; None if it has none, or if nothing is compiled yet.

    A model has a step only after its weights have been loaded, joined and tuned.
    """
    step = _STEPS.get(model) or _built(model)
    if step is None:
        return None
    step = _STEPS.setdefault(model, step)
    return None if ready.soon() is None else step


def pack_where_needed(model: nn.Module, rows: int) -> None:
    """Pack the weights for torch's products with `rows` rows, unless the compiled loops will read them unchanged."""
    if rows >= PACKED_ROWS and (ready.never() or (model not in _STEPS and _built(model) is None)):
        pack(model)


def _built(model: nn.Module) -> DecodeStep | None:
    """Return a decode step for the model's current weights; None if the loops do not support their storage format."""
    memory = _memory(model)
    plain = _numbers_of(model, lambda name, layer: _matrix(layer))
    if plain is None or not _is_complete(plain, model.config):
        return None
    codes = _CODES.get(model)
    coded = _FromCodes(codes, [] if codes is None else weights_of(model), weakref.ref(model))
    return DecodeStep(plain, coded, model.config.vocab_size, model.config.d_model, memory)


def _memory(model: nn.Module) -> tuple:
    """Return the address, shape and strides of each of a model's parameters and buffers, in the same order."""
    return tuple((x.data_ptr(), x.shape, x.stride()) for x in (*model.parameters(), *model.buffers()))


def _is_complete(numbers: _Numbers, config: ModelConfig) -> bool:
    """Return whether all weights are present and contiguous. The loops check no bounds, and parameters may have been
    replaced.
    """
    D, M, (read, z) = config.d_model, config.d_mlp, numbers.sizes
    block = [(read, D), (D, z), (2 * M if config.mlp == "swiglu" else M, D), (D, M)]
    if [each.shape for each in _weights(numbers)] != block * config.n_layer + [(config.vocab_size, D)]:
        return False
    parts = [part for layer in numbers.layers for part in (*layer.read, *layer.attend, *layer.write)] + [*numbers.head]
    if not all(part.flags.c_contiguous for part in parts if isinstance(part, np.ndarray)):
        return False
    norms = [(D, *layer.read[1:3]) for layer in numbers.layers] + [(D, *layer.write[7:9]) for layer in numbers.layers]
    norms += [(config.d_head, gain, _NONE) for layer in numbers.layers for gain in layer.attend[:2] if len(gain)]
    norms += [(D, *numbers.head[1:3])] if numbers.head[0] else []
    matrices = [layer.read[5:] for layer in numbers.layers] + [numbers.head[5:]]
    matrices += [layer.write[at : at + 3] for layer in numbers.layers for at in (0, 11, 15)]
    return all(len(gain) == n and len(bias) in (0, n) for n, gain, bias in norms) and all(
        len(scale) in (0, len(weight)) and len(bias) in (0, len(weight)) for weight, scale, bias in matrices
    )


def parts_of(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the matrices of a model's step by name, each with the names of the layers that are joined in it."""
    parts = {"head": ("unembed",)}
    for i, block in enumerate(model.blocks):
        up = ("mlp.up",) if block.mlp.gate is None else ("mlp.gate", "mlp.up")
        joined = {"qkv": ("attn.q", "attn.k", "attn.v"), "o": ("attn.o",), "up": up, "down": ("mlp.down",)}
        parts |= {f"{i}.{name}": tuple(f"blocks.{i}.{each}" for each in layers) for name, layers in joined.items()}
    return parts


def has_step(config: ModelConfig) -> bool:
    """Return whether the compiled loops compute models of this config."""
    plain = config.plain_attention and all(getattr(config, name) == value for name, value in _SUPPORTED.items())
    return plain and config.norm_placement in ("pre", "post") and config.mlp in _MLPS


def _numbers_of(model: nn.Module, matrix: Named) -> _Numbers | None:
    """Return a model's arrays, with the matrices returned by `matrix`; None if the model has no compiled step."""
    config, head = model.config, matrix("head", model.unembed)
    if head is None or not has_step(config):
        return None
    layers = []
    for i, block in enumerate(model.blocks):
        attn, mlp = block.attn, block.mlp
        qkv, up = joined(attn), mlp.up if mlp.gate is None else joined(mlp)
        if qkv is None or up is None:  # the model was not joined, or a part has been replaced since
            return None
        named = {"qkv": qkv, "o": attn.o, "up": up, "down": mlp.down}
        matrices = {name: matrix(f"{i}.{name}", layer) for name, layer in named.items()}
        if None in matrices.values():
            return None
        if len({(each.dtype, each.ndim) for each in (matrices[name][0] for name in _WRITE)}) > 1:  # one type per call
            matrices |= {name: _matrix(named[name]) for name in _WRITE}
        gains = [_NONE if each is None else each.weight.detach().numpy() for each in (attn.q_norm, attn.k_norm)]
        norm1, norm2 = _norm(block.norm1), _norm(block.norm2)
        mlp_of = (*matrices["up"], _MLPS.index(config.mlp), *matrices["down"])
        layers.append(
            _Layer(
                (not block.post_norm, *norm1, *matrices["qkv"]),
                (*gains, block.norm1.eps),
                (*matrices["o"], *norm1, *norm2, *mlp_of, block.post_norm, block.parallel),
            )
        )
    final = (False, _NONE, _NONE, 0.0, False) if model.final_norm is None else (True, *_norm(model.final_norm))
    read, z = (config.n_head + 2 * config.n_kv_head) * config.d_head, config.n_head * config.d_head
    return _Numbers(tuple(layers), (*final, *head), (read, z))


def _weights(numbers: _Numbers) -> list[np.ndarray]:
    """Return all matrices of a model's arrays."""
    parts = [part for layer in numbers.layers for part in (*layer.read, *layer.write)] + [*numbers.head]
    return [part for part in parts if getattr(part, "ndim", 0) == 2]


def _coded(strips: Mapping[str, Strips], name: str, layer: nn.Module) -> Matrix | None:
    """Return a matrix in strips if available, otherwise in its original form."""
    plain = _matrix(layer)
    return plain if plain is None or name not in strips else (*strips[name], plain[2])


def take_codes(model: nn.Module, codes: Codes | None) -> None:
    """Allow a model's steps to read the codes of its weights if that is fastest."""
    if codes is not None:
        _CODES[model] = codes


def take_bfloat16(model: nn.Module) -> None:
    """Allow a model's steps to read in bfloat16 all matrices that bfloat16 represents exactly, as is the case for most
    files.

    The codes are computed on first use, if there is enough memory.
    """
    take_codes(model, Codes("", functools.partial(_bfloat16, weakref.ref(model))))


def _bfloat16(of: "weakref.ref[nn.Module]") -> dict[str, Strips]:
    model = of()
    names, weights = parts_of(model), weights_of(model)
    if not have_room(sum(weight.nbytes // 2 for weight in weights)):
        return {}
    coded = ((name, shortened(weight)) for name, weight in zip(names, weights, strict=True))
    strips = {name: in_strips(each) for name, each in coded if each is not None}
    return {name: each for name, each in strips.items() if each is not None}


def without_codes(model: nn.Module) -> nn.Module:
    """Return the model without its codes, so that decode steps read the weights themselves: a shallow copy if it has
    codes, else the model.
    """
    return copy.copy(model) if model in _CODES else model


def look_again(model: nn.Module) -> None:
    """Make the next text use the model's current weights.

    A step reads weights in place, so an in-place change takes effect at the next token. Replaced parameters or replaced
    data have another address, so the step is rebuilt. Codes are a copy of the weights and are discarded when the
    `digest` differs. A change in the middle of a text may take effect only in the next one.
    """
    step = _STEPS.get(model)
    if step is None:
        return
    if step.memory == _memory(model):
        step.coded.look()
    elif (new := _built(model)) is None:
        _STEPS.pop(model, None)
    else:
        alike = new.name(1) == step.name(1)
        _STEPS[model] = replace(new, fastest=step.fastest, until=step.until) if alike else new


def weights_of(model: nn.Module) -> list[np.ndarray]:
    """Return the float32 matrices of a joined model's step, for the `digest` of its codes. Each is [out, in]."""
    layers = [model.unembed]
    for block in model.blocks:
        up = block.mlp.up if block.mlp.gate is None else block.mlp.joint[0]
        layers += [block.attn.joint[0], block.attn.o, up, block.mlp.down]
    return [layer.weight.detach().numpy() for layer in layers]


def _matrix(layer: nn.Module) -> Matrix | None:
    """Return a layer's arrays; None if the compiled loops do not support its product."""
    arrays = getattr(layer, "arrays", None)
    return None if arrays is None else arrays()


def _norm(norm: Norm) -> tuple[np.ndarray, np.ndarray, float, bool]:
    """Return a norm's gain, its bias (empty if it has none), eps, and whether it is centered."""
    bias = _NONE if norm.bias is None else norm.bias.detach().numpy()
    return norm.weight.detach().numpy(), bias, norm.eps, norm.kind == "layernorm"
