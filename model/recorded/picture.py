"""The picture whose patches are tokens: an encoded file, and the grid of its patches."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.arguments import is_whole, shown
from model.errors import InputError, say

MOST_BYTES = 4 << 20  # maximum size of the encoded picture
MOST_PIXELS = 16_000_000
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


@dataclass(frozen=True, eq=False)
class Picture:
    """A PNG or JPEG file, and which key tokens are its patches: row by row from token `first`."""

    data: bytes
    kind: str  # "image/png" or "image/jpeg"
    rows: int
    columns: int
    first: int


def picture(image: object, grid: Sequence[int] | None, n_keys: int) -> Picture:
    """Build the picture of an array [h, w, 3] uint8 (or [h, w]), an image of PIL, or a path to a PNG or JPEG file.

    grid: rows and columns of its patches. Without one, the patches are the largest square that fits n_keys with at most
    one special token. The patches are the last tokens.

    Raises InputError for other images, and for a grid that does not fit.
    """
    data, kind = encoded(image)
    rows, columns = _grid(grid, n_keys)
    first = n_keys - rows * columns
    if first < 0:
        raise InputError(
            "The grid has more patches than there are key tokens.",
            say("{} × {} patches, {} keys", rows, columns, n_keys),
            "Give grid=(rows, columns) of the patches.",
        )
    return Picture(data, kind, rows, columns, first)


def encoded(image: object) -> tuple[bytes, str]:
    """Return an image as the bytes of a PNG or JPEG file, with its media type."""
    if isinstance(image, str | Path):
        return _checked(_of_file(Path(image)))
    if isinstance(image, bytes):
        return _checked(image)
    if hasattr(image, "convert") and hasattr(image, "size"):  # an image of PIL
        image = np.asarray(image.convert("RGB"))
    array = np.asarray(image)
    if array.ndim == 1 and array.dtype == np.uint8:  # the bytes of a file
        return _checked(array.tobytes())
    return png(_pixels(array)), "image/png"


def png(pixels: np.ndarray) -> bytes:
    """Encode pixels as a PNG file (ISO/IEC 15948). uint8 [h, w, 3]"""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each line begins with its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _pixels(array: np.ndarray) -> np.ndarray:
    hint = "Give an array [height, width, 3] of numbers 0 to 255, or a path to a PNG or JPEG file."
    got = f"{array.dtype} {list(array.shape)}"[:80]
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)  # [3, h, w], as torch has images
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or array.size == 0 or array.dtype.kind not in "uif":
        raise InputError("This is not an image.", got, hint)
    if array.shape[0] * array.shape[1] > MOST_PIXELS:
        raise InputError("The image is too large.", got, "Make it smaller: the model saw no more than its patches.")
    if array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise InputError("The numbers of this image are not colors.", got, hint)
        array = np.round(array * 255)
    elif array.min() < 0 or array.max() > 255:
        raise InputError("The numbers of this image are not colors.", got, hint)
    array = array[:, :, :3].astype(np.uint8)
    return np.repeat(array, 3, 2) if array.shape[2] == 1 else array


def _of_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _too_large(path.stat().st_size)
        return path.read_bytes()
    except OSError as error:
        raise InputError("The image cannot be read.", f"{path}: {error.strerror}", "Check the path.") from None


def _checked(data: bytes) -> tuple[bytes, str]:
    kind = next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), None)
    if kind is None:
        raise InputError("This is not a PNG or JPEG file.", repr(data[:8])[2:-1], "Convert it to PNG.")
    if len(data) > MOST_BYTES:
        raise _too_large(len(data))
    if not (_is_whole_png(data) if kind == "image/png" else 0 < data.find(b"\xff\xda") < data.rfind(b"\xff\xd9")):
        raise InputError("The image is cut off or damaged.", f"{len(data)} bytes", "Save it again.")
    return data, kind


def _is_whole_png(data: bytes) -> bool:
    """Return whether a PNG file has its header, pixels and end, each chunk with its checksum."""
    names, at = [], 8
    while at + 12 <= len(data) and names[-1:] != [b"IEND"]:
        end = at + 8 + int.from_bytes(data[at : at + 4])
        if data[end : end + 4] != struct.pack(">I", zlib.crc32(data[at + 4 : end])):
            return False
        names.append(data[at + 4 : at + 8])
        at = end + 4
    return names[:1] == [b"IHDR"] and b"IDAT" in names and names[-1] == b"IEND"


def _too_large(size: int) -> InputError:
    return InputError(
        "The image is too large.", f"{size / 2**20:.1f} MB", say("Give at most {} MB.", MOST_BYTES // 2**20)
    )


def _grid(grid: Sequence[int] | None, n_keys: int) -> tuple[int, int]:
    if grid is None:
        side = int(np.sqrt(n_keys))
        if n_keys - side * side > 1:
            raise InputError(
                "The grid of the patches is not a square.",
                say("{} keys", n_keys),
                "Give grid=(rows, columns) of the patches.",
            )
        return side, side
    listed = list(grid) if hasattr(grid, "__iter__") else []
    if len(listed) != 2 or not all(is_whole(each) and each >= 1 for each in listed):
        raise InputError("The grid is not two numbers.", shown(grid), "Give grid=(rows, columns) of the patches.")
    return int(listed[0]), int(listed[1])
