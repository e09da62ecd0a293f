"""Files of steering vectors: NumPy's .npz, never a pickle, and the GGUF control vectors that llama.cpp reads.

| name in the .npz | array |
|---|---|
| `vectors` | float32 [n, D] |
| `layers` | [n] layers to which they belong, ascending |
| `site` | text: resid_pre, resid_mid or resid_post |
| `name`, `model` | texts |

In GGUF, `direction.N` is added after block N, counted from 0, and llama.cpp reads no `direction.0`; so a file holds the
stream after the blocks 1 to L - 1. Keys and layers as in llama.cpp's common_control_vector_load and repeng's export.
"""

import io
import re
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from model.errors import InputError, say
from model.gpt.edits import STREAM_SITES
from model.gpt.placed_vectors import MOST_WIDTH, vector_text
from model.public import public

MOST_FILE = 64 << 20  # maximum size of a file in bytes
MOST_LAYERS = 512
MOST_TEXT = 200  # characters of a name
_TENSOR = re.compile(r"direction\.(\d{1,4})")
_CONTROL, _HINT, _COUNT = "controlvector", "controlvector.model_hint", "controlvector.layer_count"
_DAMAGED = (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError, KeyError, RuntimeError)


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Steering vectors by layer, the site to which they are added, and the names of the vector and its model."""

    vectors: Mapping[int, np.ndarray]  # layer -> float32 [D], by ascending layer
    site: str = "resid_post"
    name: str = ""
    model: str = ""

    @property
    def width(self) -> int:
        """The number of entries of each vector."""
        return len(next(iter(self.vectors.values())))


@public()
def save_vectors(path: str | Path, file: VectorFile) -> None:
    """Write steering vectors to a .npz or .gguf file, according to the name's ending.

    A .gguf file holds vectors after the blocks: those of resid_pre belong to the block before, and resid_mid is
    refused, as is the stream after block 0. Raises InputError for these, for another ending, and for vectors that are
    not finite or of different lengths.
    """
    path, file = Path(path).expanduser(), _checked(file)
    if path.suffix not in (".npz", ".gguf"):
        hint = "Choose a name that ends with .npz or .gguf."
        raise InputError("A file of vectors is .npz or .gguf.", path.name[:60], hint)
    try:
        path.write_bytes(npz_bytes(file) if path.suffix == ".npz" else gguf_bytes(file))
    except OSError as error:
        raise InputError("The file cannot be written.", f"{path}: {error.strerror}", "Check the path.") from None


@public()
def load_vectors(path: str | Path) -> VectorFile:
    """Read steering vectors from a .npz or .gguf file. Raises InputError for a file that is missing, too large,
    damaged, or not one of these.
    """
    path = Path(path).expanduser()
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MOST_FILE else b""
    except OSError as error:
        raise InputError(
            "The file of vectors cannot be read.", f"{path}: {error.strerror}", "Check the path."
        ) from None
    if size > MOST_FILE:
        raise InputError("The file is too large.", f"{size} bytes", say("At most {} bytes.", MOST_FILE))
    return vectors_from_gguf(path) if data[:4] == b"GGUF" else vectors_from_npz(data)


def load_bytes(data: bytes) -> VectorFile:
    """Read steering vectors from the bytes of a .npz or .gguf file. Raises InputError as `load_vectors` does."""
    if len(data) > MOST_FILE:
        raise InputError("The file is too large.", f"{len(data)} bytes", say("At most {} bytes.", MOST_FILE))
    if data[:4] != b"GGUF":
        return vectors_from_npz(data)
    with tempfile.TemporaryDirectory() as folder:  # the reader takes only paths
        path = Path(folder) / "vector.gguf"
        path.write_bytes(data)
        return vectors_from_gguf(path)


def npz_bytes(file: VectorFile) -> bytes:
    """Return the bytes of a .npz file with these vectors."""
    stream = io.BytesIO()
    arrays = {"vectors": np.stack(list(file.vectors.values())), "layers": np.array(list(file.vectors))}
    np.savez_compressed(
        stream, **arrays, site=np.array(file.site), name=np.array(file.name), model=np.array(file.model)
    )
    return stream.getvalue()


def vectors_from_npz(data: bytes) -> VectorFile:
    """Read steering vectors from the bytes of a .npz file. Raises InputError as `load_vectors` does."""
    names = ("vectors", "layers", "site", "name", "model")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(each.file_size for each in archive.infolist())
        if unpacked > MOST_FILE:
            raise InputError("The file is too large.", f"{unpacked} bytes", say("At most {} bytes.", MOST_FILE))
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            at = {name: archive[name] for name in names if name in archive.files}
        layers, vectors = [int(each) for each in at["layers"]], at["vectors"]
        texts = {name: str(at[name]) for name in names[2:] if name in at}
    except _DAMAGED as error:
        raise InputError("The file of vectors cannot be read.", type(error).__name__, _NPZ) from None
    if vectors.ndim != 2 or len(layers) != len(vectors) or len(set(layers)) != len(layers):
        raise InputError("The file of vectors cannot be read.", f"{list(vectors.shape)}", _NPZ)
    return _checked(VectorFile(dict(zip(layers, vectors, strict=True)), **texts))


_NPZ = "It needs `vectors` [n, D] and `layers` [n], as save_vectors writes them."


def gguf_bytes(file: VectorFile) -> bytes:
    """Return the bytes of a GGUF control vector. Raises InputError for a site or a layer that GGUF cannot hold."""
    if file.site == "resid_mid":
        hint = "Save it as .npz."
        raise InputError("A GGUF control vector acts after a block, not between attention and MLP.", file.site, hint)
    shift = int(file.site == "resid_pre")
    if (lowest := min(file.vectors) - shift) < 1:
        what = "A GGUF control vector has no direction after the first block, layer 0."
        raise InputError(what, f"layer {lowest}", "Leave that layer out, or save it as .npz.")
    writer = gguf.GGUFWriter(None, _CONTROL)
    writer.add_string(_HINT, file.model)
    writer.add_uint32(_COUNT, len(file.vectors))
    if file.name:
        writer.add_name(file.name)
    for layer, vector in file.vectors.items():
        writer.add_tensor(f"direction.{layer - shift}", np.ascontiguousarray(vector, np.float32))
    return _written(writer)


def _written(writer: gguf.GGUFWriter) -> bytes:
    """Return the bytes of a writer, which writes only to paths."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vector.gguf"
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def vectors_from_gguf(path: Path) -> VectorFile:
    """Read a GGUF control vector: vectors after the blocks. Raises InputError as `load_vectors` does."""
    hint = "It needs tensors direction.1, direction.2 … of float32."
    try:
        reader = gguf.GGUFReader(path)
        texts = {key: field.contents() for key, field in reader.fields.items() if key in (_ARCH, _HINT, "general.name")}
        found = [(_TENSOR.fullmatch(each.name), each) for each in reader.tensors[: MOST_LAYERS + 1]]
        float32 = all(each.tensor_type == gguf.GGMLQuantizationType.F32 for _, each in found)
        vectors = {int(match[1]): np.array(each.data) for match, each in found if match}
    except (*_DAMAGED, IndexError, TypeError) as error:
        raise InputError("The file of vectors cannot be read.", type(error).__name__, hint) from None
    if texts.get(_ARCH) != _CONTROL:
        what = "This GGUF file holds no control vector."
        raise InputError(what, str(texts.get(_ARCH))[:40], "Its general.architecture must be controlvector.")
    if not vectors or not float32 or 0 in vectors or len(vectors) != len(reader.tensors):
        raise InputError("The file of vectors cannot be read.", f"{len(reader.tensors)} tensors", hint)
    name, model = (str(texts.get(key, ""))[:MOST_TEXT] for key in ("general.name", _HINT))
    return _checked(VectorFile(vectors, "resid_post", name, model))


_ARCH = "general.architecture"


def _checked(file: VectorFile) -> VectorFile:
    """Return the file's vectors as float32 by ascending layer. Raises InputError unless all of it can be used."""
    if file.site not in STREAM_SITES:
        hint = say("Choose one of: {}.", ", ".join(STREAM_SITES))
        raise InputError("The stream has no such site.", str(file.site)[:40], hint)
    if not 0 < len(file.vectors) <= MOST_LAYERS or any(not 0 <= layer < MOST_LAYERS for layer in file.vectors):
        what = "A file of vectors has a vector for each of its layers."
        raise InputError(what, f"{len(file.vectors)} vectors", say("Give 1 to {} layers.", MOST_LAYERS))
    widths = {np.shape(vector) for vector in file.vectors.values()}
    if len(widths) > 1 or len(next(iter(widths))) != 1 or next(iter(widths))[0] > MOST_WIDTH:
        raise InputError("The vectors have different lengths.", str(sorted(widths))[:60], "Give vectors of one model.")
    if max(len(file.name), len(file.model)) > MOST_TEXT:
        hint = say("Give 1 to {} characters.", MOST_TEXT)
        raise InputError("The name of a vector cannot be used.", file.name[:40], hint)
    for vector in file.vectors.values():
        vector_text(vector)
    ordered = {layer: np.asarray(file.vectors[layer], np.float32) for layer in sorted(file.vectors)}
    return VectorFile(ordered, file.site, file.name, file.model)
