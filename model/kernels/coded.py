"""Float32 matrices in the shorter codes of their file, arranged in strips for `model.kernels.strips`."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from model.free_memory import fits
from model.kernels import ready

WIDTHS = (96, 80, 64, 48, 32)  # outputs per strip: more overflow the L1 cache, fewer make the loop inefficient
SHARES = 8  # number of threads assumed for the choice of the strip width
MOST = 2 << 30  # maximum bytes of a model's codes; computing more would take longer than they save for most texts
_ROWS = 4096  # number of rows of a matrix that are processed together
_KEYS = np.random.PCG64(0).random_raw(2048) | np.uint64(1)  # odd keys, the same for all versions of numpy
_WORDS = 128 * len(_KEYS)  # words summed by one thread at a time, 1 MiB

Strips = tuple[np.ndarray, np.ndarray]  # codes [strips, in, R], scales and offsets [strips, blocks, 2, R]


@dataclass(frozen=True, eq=False)
class Coded:
    """W[o, i] = scale[o, i // size] * code[o, i] + offset[o, i // size], with `size` inputs per block."""

    code: np.ndarray  # int8, or the bits of bfloat16 as uint16. [out, in]
    scale: np.ndarray  # float32 [out, in / size]
    offset: np.ndarray  # float32 [out, in / size]

    @property
    def size(self) -> int:
        """The number of inputs per block."""
        return self.code.shape[1] // self.scale.shape[1]

    def weight(self) -> np.ndarray:
        """Return the decoded matrix. float32 [out, in]"""
        bits = self.code.dtype == np.uint16
        numbers = (self.code.astype(np.uint32) << 16).view(np.float32) if bits else self.code.astype(np.float32)
        blocks = numbers.reshape(*self.scale.shape, -1)
        return (blocks * self.scale[..., None] + self.offset[..., None]).reshape(self.code.shape)


@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of a model's matrices by name (`parts_of` in model.gpt.decode_step), and the digest of the weights."""

    digest: str  # digest of the weights; empty if the codes were just computed from them
    strips: Callable[[], Mapping[str, Strips]]


def have_room(size: int) -> bool:
    """Return whether codes of this size in bytes should be computed:
    at most MOST, and at most half of the free memory.
    """
    return size <= MOST and fits(2 * size)


def below(parts: Sequence[Coded]) -> Coded | None:
    """Stack matrices with the same inputs along the outputs; None if their block sizes differ."""
    if len({part.size for part in parts}) != 1:
        return None
    return Coded(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "scale", "offset")))


def shortened(weight: np.ndarray) -> Coded | None:
    """Return a float32 matrix in bfloat16 if every number is exactly representable, otherwise None."""
    bits, rows = weight.view(np.uint32), (len(weight), 1)
    if any((bits[start : start + _ROWS] & 0xFFFF).any() for start in range(0, len(bits), _ROWS)):
        return None
    return Coded((bits >> 16).astype(np.uint16), np.ones(rows, np.float32), np.zeros(rows, np.float32))


def in_strips(coded: Coded) -> Strips | None:
    """Lay out a matrix in strips of R outputs. Returns None for an unsuitable shape.

    The shape is unsuitable if the number of outputs is not divisible by any of WIDTHS, or the block size is not
    divisible by 4. R is the width with which the thread with the most strips computes the fewest outputs.
    """
    out, blocks = coded.scale.shape
    widths = [R for R in WIDTHS if out % R == 0]
    if not widths or coded.size % 4:
        return None
    R = min(widths, key=lambda R: -(-out // R // SHARES) * R)
    codes = coded.code.reshape(-1, R, coded.code.shape[1]).transpose(0, 2, 1)
    scales = np.stack((coded.scale, coded.offset)).reshape(2, -1, R, blocks).transpose(1, 3, 0, 2)
    return np.ascontiguousarray(codes), np.ascontiguousarray(scales)


def digest(weights: Iterable[np.ndarray]) -> str:
    """Return a hash of float32 matrices that depends on every bit. Each is [out, in].

    Each row of 2,048 words of 32 bits is reduced to sum_i key_i word_i modulo 2^64, with odd keys (MULTILINEAR of
    Lemire and Kaser 2014, section 2). If one word differs, so does the sum, because an odd number times a nonzero
    difference below 2^32 is not a multiple of 2^64. If several differ, the sums are equal for at most 2^-32 of all
    keys: given the other keys, few values of any one key make them equal. The hash is the SHA-256 of the shapes and the
    sums, in the same order. It takes about as long as reading the weights.
    """
    combined = hashlib.sha256()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for sums in pool.map(_sums, _pieces(weights)):
            combined.update(sums)
    return combined.hexdigest()


def _pieces(weights: Iterable[np.ndarray]) -> Iterator[np.ndarray | bytes]:
    """Yield each matrix's shape, then its words: blocks of complete rows, then the remainder."""
    for weight in weights:
        yield repr(weight.shape).encode()
        words = weight.reshape(-1).view(np.uint32)
        aligned = len(words) // len(_KEYS) * len(_KEYS)
        yield from (words[start : min(start + _WORDS, aligned)] for start in range(0, aligned, _WORDS))
        yield words[aligned:]


def _sums(words: np.ndarray | bytes) -> bytes:
    """Return the sums of words times keys for each row, with the compiled loop if it is ready. A shape is returned
    unchanged.
    """
    if isinstance(words, bytes):
        return words
    keys = _KEYS[: len(words)]
    rows, loops = len(words) // max(len(keys), 1), ready.soon()
    if loops is None:
        return np.einsum("ij,j->i", words.reshape(rows, len(keys)).astype(np.uint64), keys).tobytes()
    sums = np.empty(rows, np.uint64)
    loops.row_sums(words, keys, sums)
    return sums.tobytes()
