"""Reader of GGUF files: metadata, tensor table and dequantized tensors.

Layout (little-endian): magic, version, tensor count, metadata count, metadata, tensor table, padding to the alignment,
tensors. Specification: ggml/docs/gguf.md in the ggml project.
"""

import math
import mmap
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from torch import Tensor

from model.errors import CheckpointError, UnsupportedModel

Value = bool | int | float | str | list[str] | np.ndarray

VERSIONS = (2, 3)
MAX_DIMS = 4
DEFAULT_ALIGNMENT = 32
STRING, ARRAY = 8, 9
# Number of a value type in the file: (struct format, numpy dtype).
NUMBERS = {
    0: ("<B", "<u1"),
    1: ("<b", "<i1"),
    2: ("<H", "<u2"),
    3: ("<h", "<i2"),
    4: ("<I", "<u4"),
    5: ("<i", "<i4"),
    6: ("<f", "<f4"),
    7: ("<?", "?"),
    10: ("<Q", "<u8"),
    11: ("<q", "<i8"),
    12: ("<d", "<f8"),
}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True)
class GgufTensor:
    """Location of one tensor in the file. `shape` is in torch order, [out, in] for a matrix."""

    shape: tuple[int, ...]
    type: GGMLQuantizationType
    offset: int  # bytes from the start of the file
    n_bytes: int
    path: Path | None = None  # the file, if a model is split into several
    parts: tuple["GgufTensor", ...] = ()  # tensors of the same shape that this one stacks


@dataclass(frozen=True, eq=False)
class GgufFile:
    """A parsed GGUF file. In the metadata, arrays of numbers are numpy arrays, and arrays of strings are lists."""

    path: Path
    metadata: dict[str, Value]
    tensors: dict[str, GgufTensor]

    def read(self, name: str) -> Tensor:
        """Return the named tensor dequantized to float32, contiguous, with the shape `tensors[name].shape`.

        Raises UnsupportedModel for an unsupported quantization, and CheckpointError if the file has been truncated
        since it was parsed.
        """
        info = self.tensors[name]
        return dequantize(self.stored(name), info.type, info.shape)

    def stored(self, name: str) -> np.ndarray:
        """Return the named tensor's bytes, mapped from the file. [n_bytes] uint8

        Raises CheckpointError if the file has been truncated since it was parsed.
        """
        info = self.tensors[name]
        mapped = [self._mapped(name, part) for part in info.parts or (info,)]
        return mapped[0] if len(mapped) == 1 else np.concatenate(mapped)

    def _mapped(self, name: str, info: GgufTensor) -> np.ndarray:
        path = info.path or self.path
        try:
            # Copy-on-write instead of read-only, since torch warns about arrays that are not writable.
            return np.memmap(path, np.uint8, "c", info.offset, (info.n_bytes,))
        except (OSError, ValueError) as error:
            raise _broken(path, f"tensor {name} cannot be read: {error}") from error


def read_gguf(path: Path) -> GgufFile:
    """Parse the metadata and the tensor table, of all files if a model is split, without reading tensors.

    Raises CheckpointError for a file that is missing, truncated or inconsistent, and UnsupportedModel for an
    unsupported version or byte order.
    """
    file = _read_one(Path(path))
    count = file.metadata.get(SPLIT_COUNT, 0)
    return file if count in (0, 1) else _joined(file, count)


# --- split files -----------------------------------------------------------------------------------

SPLIT_COUNT, SPLIT_NUMBER, SPLIT_TENSORS = "split.count", "split.no", "split.tensors.count"
_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE)


def files_of(path: Path) -> tuple[Path, ...]:
    """Return all files of the model that `path` belongs to by its name, in order: NAME-00001-of-00003.gguf and so on.

    A file of another name is the only one.
    """
    match = _PART.fullmatch(path.name)
    if match is None or not 1 <= int(match[2]) <= int(match[3]):
        return (path,)
    suffix = path.name[-len(".gguf") :]
    return tuple(path.with_name(f"{match[1]}-{n:05}-of-{match[3]}{suffix}") for n in range(1, int(match[3]) + 1))


def states_of(path: Path) -> list[list[int]]:
    """Return size and modification time of each file. If all are unchanged, none has been written to."""
    return [[(status := each.stat()).st_size, status.st_mtime_ns] for each in files_of(path) if each.is_file()]


def _joined(file: GgufFile, count: Value) -> GgufFile:
    """Return the metadata of the first part with the tensors of all. Raises CheckpointError for a missing part."""
    paths = files_of(file.path)
    if len(paths) != count:
        hint = "Give the files the names NAME-00001-of-00002.gguf and so on."
        raise CheckpointError("The name of a split file does not say which part it is.", file.path.name, hint)
    if missing := [path.name for path in paths if not path.is_file()]:
        got = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise CheckpointError("A part of the split file is missing.", got, "Put all parts into the same folder.")
    tensors: dict[str, GgufTensor] = {}
    parts = [file if path == file.path else _read_one(path) for path in paths]
    for number, part in enumerate(parts):
        found = part.metadata.get(SPLIT_COUNT), part.metadata.get(SPLIT_NUMBER)
        if found != (count, number):
            raise _broken(part.path, f"split.count and split.no are {found}, expected {(count, number)}")
        if twice := tensors.keys() & part.tensors.keys():
            raise _broken(part.path, f"the tensor {min(twice)} is in two parts")
        tensors |= {name: replace(info, path=part.path) for name, info in part.tensors.items()}
    wanted = parts[0].metadata.get(SPLIT_TENSORS, len(tensors))
    if wanted != len(tensors):
        raise _broken(parts[0].path, f"split.tensors.count is {wanted}, the parts have {len(tensors)}")
    return GgufFile(parts[0].path, parts[0].metadata, tensors)


# --- one file --------------------------------------------------------------------------------------


def _read_one(path: Path) -> GgufFile:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(path, data)
    except (OSError, ValueError) as error:  # mmap of an empty file is a ValueError
        if isinstance(error, UnicodeDecodeError):
            raise _broken(path, f"a string is not UTF-8: {error}") from error
        raise CheckpointError("The GGUF file cannot be read.", f"{path.name}: {error}", "Check the path.") from error
    except struct.error as error:
        raise _broken(path, "it ends inside its header") from error


def _broken(path: Path, detail: str) -> CheckpointError:
    return CheckpointError("The GGUF file is damaged or truncated.", f"{path.name}: {detail}", "Fetch the file again.")


def _parse(path: Path, data: mmap.mmap) -> GgufFile:
    if data[:4] != b"GGUF":
        raise _broken(path, f"it starts with {data[:4]!r}, not with b'GGUF'")
    (version,) = _U32.unpack_from(data, 4)
    if version not in VERSIONS:
        raise UnsupportedModel("This version of the GGUF format is not supported.", str(version), "Use version 2 or 3.")
    (n_tensors,), (n_values,) = _U64.unpack_from(data, 8), _U64.unpack_from(data, 16)
    position, metadata = 24, {}
    # A value has at least 13 bytes and a tensor entry 24, so absurd counts are rejected before any allocation.
    if n_values * 13 + n_tensors * 24 > len(data):
        raise _broken(path, f"it claims {n_values} values and {n_tensors} tensors in {len(data)} bytes")
    for _ in range(n_values):
        key, position = _string(path, data, position)
        if key in metadata:
            raise _broken(path, f"the key {key} occurs twice")
        metadata[key], position = _value(path, data, position)
    infos, position = _tensor_infos(path, data, position, n_tensors)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise _broken(path, f"general.alignment {alignment!r} is not a power of two")
    start = -(-position // alignment) * alignment
    tensors = {name: _located(path, name, info, start, len(data)) for name, info in infos.items()}
    # Otherwise a small file whose tensors share the same bytes could exhaust the memory.
    for (a, first), (b, second) in pairwise(sorted(tensors.items(), key=lambda item: item[1].offset)):
        if first.offset + first.n_bytes > second.offset:
            raise _broken(path, f"the tensors {a} and {b} overlap")
    return GgufFile(path, metadata, tensors)


def _string(path: Path, data: mmap.mmap, position: int) -> tuple[str, int]:
    (length,) = _U64.unpack_from(data, position)
    end = position + 8 + length
    if end > len(data):
        raise _broken(path, f"a string of {length} bytes at offset {position} reaches past its end")
    return data[position + 8 : end].decode(), end


def _value(path: Path, data: mmap.mmap, position: int) -> tuple[Value, int]:
    """Read the typed value at `position`. Returns the value and the position after it."""
    (kind,) = _U32.unpack_from(data, position)
    position += 4
    if kind == STRING:
        return _string(path, data, position)
    if kind == ARRAY:
        return _array(path, data, position)
    if kind not in NUMBERS:
        raise _broken(path, f"value type {kind} at offset {position - 4} does not exist")
    (value,) = struct.unpack_from(NUMBERS[kind][0], data, position)
    return value, position + struct.calcsize(NUMBERS[kind][0])


def _array(path: Path, data: mmap.mmap, position: int) -> tuple[Value, int]:
    (kind,), (count,) = _U32.unpack_from(data, position), _U64.unpack_from(data, position + 4)
    position += 12
    if kind == STRING:
        return _strings(path, data, position, count)
    if kind not in NUMBERS:
        raise _broken(path, f"an array of value type {kind} at offset {position - 12} is not read")
    dtype = np.dtype(NUMBERS[kind][1])
    end = position + count * dtype.itemsize
    if end > len(data):
        raise _broken(path, f"an array of {count} numbers at offset {position} reaches past its end")
    return np.frombuffer(data[position:end], dtype), end


def _strings(path: Path, data: mmap.mmap, position: int, count: int) -> tuple[list[str], int]:
    """Read `count` strings. A tokenizer's vocabulary and merges have 98,000, so the loop is minimal."""
    if position + 8 * count > len(data):
        raise _broken(path, f"an array of {count} strings at offset {position} reaches past its end")
    unpack, strings = _U64.unpack_from, []
    for _ in range(count):
        start = position + 8
        position = start + unpack(data, position)[0]
        strings.append(data[start:position].decode())
    # After a slice beyond the end, the next unpack fails, so only the last string needs a check.
    if position > len(data):
        raise _broken(path, "a string reaches past its end")
    return strings, position


def _tensor_infos(
    path: Path, data: mmap.mmap, position: int, count: int
) -> tuple[dict[str, tuple[tuple[int, ...], int, int]], int]:
    """Return {name: (shape in torch order, type number, offset after the header)}, and the position after the table."""
    infos = {}
    for _ in range(count):
        name, position = _string(path, data, position)
        (n_dims,) = _U32.unpack_from(data, position)
        if name in infos:
            raise _broken(path, f"the tensor {name} occurs twice")
        if not 1 <= n_dims <= MAX_DIMS:
            raise _broken(path, f"tensor {name} has {n_dims} dimensions")
        dims = struct.unpack_from(f"<{n_dims}Q", data, position + 4)
        position += 4 + 8 * n_dims
        kind, offset = struct.unpack_from("<IQ", data, position)
        position += 12
        infos[name] = (tuple(reversed(dims)), kind, offset)
    return infos, position


def _located(path: Path, name: str, info: tuple[tuple[int, ...], int, int], start: int, size: int) -> GgufTensor:
    """Return the tensor's location in the file. Raises CheckpointError if it is not inside the file."""
    shape, kind, offset = info
    if kind not in GGML_QUANT_SIZES:
        raise UnsupportedModel(
            "A tensor has a type that is not supported.", f"{name}, type {kind}", "Use a file of another type."
        )
    block, block_bytes = GGML_QUANT_SIZES[kind]
    n_elements = math.prod(shape)
    if n_elements == 0 or shape[-1] % block:
        raise _broken(path, f"tensor {name} has shape {list(shape)}, its rows must be multiples of {block}")
    n_bytes = n_elements // block * block_bytes
    if start + offset + n_bytes > size:
        raise _broken(path, f"tensor {name} ends at byte {start + offset + n_bytes} of {size}")
    return GgufTensor(shape, GGMLQuantizationType(kind), start + offset, n_bytes)


# --- dequantization --------------------------------------------------------------------------------


def dequantize(data: np.ndarray, kind: GGMLQuantizationType, shape: tuple[int, ...]) -> Tensor:
    """Dequantize stored bytes to float32, bit-identically to gguf.quants.dequantize.

    data [n_bytes] uint8, writable -> [*shape], never a view of `data`. Raises UnsupportedModel for a type whose
    dequantization is not supported.
    """
    if kind in FAST:
        return FAST[kind](data).reshape(shape)
    block, block_bytes = GGML_QUANT_SIZES[kind]
    rows = data.reshape(-1, shape[-1] // block * block_bytes)
    try:
        values = gguf.quants.dequantize(rows, kind)
    except NotImplementedError as error:
        hint = "Use Q8_0, Q4_0, Q4_1, F16 or K-quants."
        raise UnsupportedModel("A tensor has a type that cannot be read.", kind.name, hint) from error
    return torch.from_numpy(np.ascontiguousarray(values, np.float32)).reshape(shape)


def _f32(data: np.ndarray) -> Tensor:
    return torch.from_numpy(data.view("<f4")).clone()


def _f16(data: np.ndarray) -> Tensor:
    return torch.from_numpy(data.view("<f2")).float()


def _bf16(data: np.ndarray) -> Tensor:
    return torch.from_numpy(data.view("<i2")).view(torch.bfloat16).float()


def _q8_0(data: np.ndarray) -> Tensor:
    """Dequantize blocks of a float16 scale d and 32 signed bytes q, with the value d q."""
    blocks = torch.from_numpy(data.reshape(-1, 34))  # [N, 34]
    return blocks[:, 2:].view(torch.int8).float().mul_(_halves(data, 34, 0))


def _q4_0(data: np.ndarray) -> Tensor:
    """Dequantize blocks of a float16 scale d and 32 4-bit integers q in 16 bytes, with the value d (q - 8)."""
    out = _nibbles(data, 18, 2)  # [N, 32]
    return out.sub_(8.0).mul_(_halves(data, 18, 0))


def _q4_1(data: np.ndarray) -> Tensor:
    """Dequantize blocks of a float16 scale d, a float16 minimum m and 32 4-bit integers q, with the value d q + m.

    The value is rounded after each operation.
    """
    out = _nibbles(data, 20, 4)  # [N, 32]
    return out.mul_(_halves(data, 20, 0)).add_(_halves(data, 20, 2))


def _halves(data: np.ndarray, block_bytes: int, at: int) -> Tensor:
    """Return the float16 at byte `at` of each block, as float32. [N, 1]"""
    return torch.from_numpy(data.reshape(-1, block_bytes)[:, at : at + 2].view("<f2")).float()


def _nibbles(data: np.ndarray, block_bytes: int, at: int) -> Tensor:
    """Return the low 4 bits of the 16 bytes from `at`, then the high 4 bits, as float32. [N, 32]"""
    packed = torch.from_numpy(data.reshape(-1, block_bytes)[:, at:])  # [N, 16]
    out = torch.empty(len(packed), 32)
    out[:, :16] = packed & 15
    out[:, 16:] = packed >> 4
    return out


FAST: dict[GGMLQuantizationType, Callable[[np.ndarray], Tensor]] = {
    GGMLQuantizationType.F32: _f32,
    GGMLQuantizationType.F16: _f16,
    GGMLQuantizationType.BF16: _bf16,
    GGMLQuantizationType.Q8_0: _q8_0,
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
}
