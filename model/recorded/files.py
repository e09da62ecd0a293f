"""Files of attention: NumPy's .npz, never a pickle, read within limits that are checked before anything is unpacked.

| name | array |
|---|---|
| `attention` | [L, H, T, S] or [H, T, S]; instead, `layer_0`, `layer_1` ... with [H, T, S] each |
| `tokens` | [T] texts |
| `keys` | [S] texts, where the keys are other tokens |
| `padding`, `key_padding` | [T], [S]: 1 for a token, 0 for padding |
| `image` | uint8 [height, width, 3], or the bytes of a PNG or JPEG file |
| `grid` | [2]: rows and columns of the image's patches |
| `first_layer` | number of the first layer |
"""

import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from model.errors import InputError, say
from model.recorded.record import AttentionRecord, record_of
from model.recorded.taken import MOST_WEIGHTS

MOST_FILE = 256 << 20  # maximum size of a file in bytes
MOST_UNPACKED = 9 * MOST_WEIGHTS  # bytes of all arrays together: float64 weights, and the rest
MOST_ENTRIES = 512
NAMES = ("attention", "tokens", "keys", "padding", "key_padding", "image", "grid", "first_layer")
_LAYER = re.compile(r"layer_(\d{1,4})")
_KINDS = "fiubUS"  # kinds of NumPy types that hold plain values
_HINT = "Save one with numpy.savez_compressed(path, attention=…, tokens=…)."
# what zipfile raises for a damaged archive, by the way in which it is compressed
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, RuntimeError, UnicodeError, OSError),
)


def read_npz(source: str | Path | bytes, *, most: int = MOST_FILE, unpacked: int = MOST_UNPACKED) -> AttentionRecord:
    """Read attention from a .npz file, or from its bytes. `most` and `unpacked` are the maximum sizes in bytes of the
    file and of its arrays.

    Raises InputError for a file that is missing, too large, damaged or not a .npz, that unpacks to more than the limit,
    that holds Python objects, or whose arrays do not fit each other (`record_of`).
    """
    if isinstance(source, bytes):
        if len(source) > most:
            raise _too_large(len(source), most)
        return _record(_arrays(source, unpacked))
    path = Path(source).expanduser()
    try:
        size = path.stat().st_size
        if size > most:
            raise _too_large(size, most)
        return _record(_arrays(path.read_bytes(), unpacked))
    except OSError as error:
        raise InputError(
            "The file of attention cannot be read.", f"{path}: {error.strerror}", "Check the path."
        ) from None


def save_npz(record: AttentionRecord, path: str | Path) -> None:
    """Write a record to a .npz file that `read_npz` reads."""
    arrays: dict[str, np.ndarray] = {"attention": record.weights, "tokens": np.array(record.queries, dtype=str)}
    if record.keys is not None:
        arrays["keys"] = np.array(record.keys, dtype=str)
    if record.first_layer:
        arrays["first_layer"] = np.array(record.first_layer)
    if record.image is not None:
        arrays["image"] = np.frombuffer(record.image.data, np.uint8)
        arrays["grid"] = np.array([record.image.rows, record.image.columns])
    np.savez_compressed(path, allow_pickle=False, **arrays)  # type: ignore[arg-type]


def _record(arrays: dict[str, np.ndarray]) -> AttentionRecord:
    """Build a record from the arrays of a file."""
    layers: dict[int, np.ndarray] = {}
    for name, array in arrays.items():
        if match := _LAYER.fullmatch(name):
            if int(match[1]) in layers:
                raise _twice(name)
            layers[int(match[1])] = array
    if ("attention" in arrays) == bool(layers):
        what = "The file has attention twice." if layers else "The file has no attention."
        raise InputError(what, ", ".join(arrays)[:200], "Name the array attention, or the layers layer_0, layer_1 ….")
    if "tokens" not in arrays:
        raise InputError("The file has no tokens.", ", ".join(arrays)[:200], "Name their array tokens.")
    attention = layers if layers else arrays["attention"]
    first = _one(arrays["first_layer"]) if "first_layer" in arrays else None
    texts = {name: _texts(arrays[name], name) for name in ("tokens", "keys") if name in arrays}
    return record_of(
        attention,
        texts["tokens"],
        texts.get("keys"),
        image=arrays.get("image"),
        grid=arrays["grid"].reshape(-1)[:3].tolist() if "grid" in arrays else None,
        padding=arrays.get("padding"),
        key_padding=arrays.get("key_padding"),
        first_layer=first,
    )


def _one(array: np.ndarray) -> int:
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InputError("first_layer is the number of a layer.", str(array.dtype), "Give an integer from 0.")
    return int(array.reshape(-1)[0])


def _texts(array: np.ndarray, name: str) -> list[str] | list[bytes]:
    if array.dtype.kind not in "US" or array.ndim != 1:
        got = f"{array.dtype} {list(array.shape)}"
        raise InputError(say("{} is not a list of texts.", name), got, "Save texts: numpy.array(tokens, dtype=str).")
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > 0x10FFFF:  # no character
            raise InputError("An array of the file is damaged.", name, _HINT)
    return array.tolist()


# --- the archive -----------------------------------------------------------------------------------------------


def _arrays(data: bytes, most: int) -> dict[str, np.ndarray]:
    """Read the arrays with known names from the bytes of a .npz file."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES:
                raise InputError("The file has too many arrays.", str(len(entries)), _HINT)
            wanted: dict[str, zipfile.ZipInfo] = {}
            for each in filter(lambda entry: _is_wanted(entry.filename), entries):
                if wanted.setdefault(each.filename.removesuffix(".npy"), each) is not each:
                    raise _twice(each.filename)
            size = sum(each.file_size for each in wanted.values())
            if size > most:
                raise InputError(
                    "The file unpacks to more than the limit.",
                    f"{size / 2**20:.0f} MB",
                    say("At most {} MB are read. Choose fewer layers or heads.", most // 2**20),
                )
            return {name: _array(archive, entry) for name, entry in wanted.items()}
    except _DAMAGED:
        raise InputError("This is not a .npz file, or it is damaged.", _beginning(data), _HINT) from None


def _twice(name: str) -> InputError:
    return InputError("The file has an array or a layer twice.", name, "Keep one of them.")


def _is_wanted(filename: str) -> bool:
    name = filename.removesuffix(".npy")
    return filename.endswith(".npy") and (name in NAMES or _LAYER.fullmatch(name) is not None)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """Read an array after comparing the size that its header names with that of the entry."""
    name = entry.filename.removesuffix(".npy")
    with archive.open(entry) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(file)
        except (ValueError, KeyError):
            raise InputError("An array of the file is damaged.", name, _HINT) from None
        if dtype.kind not in _KINDS:
            raise InputError(
                "The file holds Python objects, which are not read.",
                name,
                "Save numbers and texts only: numpy.array(tokens, dtype=str).",
            )
        data = file.read(entry.file_size)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(data) != size or any(n < 0 for n in shape):
        raise InputError("An array of the file is damaged.", name, _HINT)
    array = np.frombuffer(data, dtype) if dtype.itemsize else np.empty(shape, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _beginning(data: bytes) -> str:
    return f"{len(data)} bytes" if not data[:8].isascii() else repr(data[:8])[2:-1]


def _too_large(size: int, most: int) -> InputError:
    return InputError(
        "The file is too large.", f"{size / 2**20:.1f} MB", say("At most {} MB are read.", max(1, most >> 20))
    )
