"""Reader of a folder with safetensors: one model.safetensors, or shards listed in model.safetensors.index.json."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.errors import CheckpointError, UnsupportedModel, say
from model.strict_json import parse

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LFS = b"version https://git-lfs"  # the beginning of Git LFS's pointer files
MAX_JSON_BYTES = 64 << 20  # maximum size, that of an index of a million tensors
# A plain file name in the same folder, without a separator, drive or leading dot.
SHARD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class TensorFolder:
    """The tensors of a folder, and the file that contains each."""

    path: Path
    files: dict[str, str]  # tensor name: file name

    def read(self, name: str) -> Tensor:
        """Return a copy of the named tensor in memory, as contiguous float32.

        Raises UnsupportedModel for a tensor that is not stored as floats, and CheckpointError for a broken file.
        """
        # A copy, since the result of safe_open is mapped from the file, and overwriting the file later would crash
        # the process.
        return self.mapped(name).to(torch.float32, copy=True, memory_format=torch.contiguous_format)

    def mapped(self, name: str) -> Tensor:
        """Return the named tensor mapped from its file, in its stored type; pages are read on access.

        Raises the errors of `read`.
        """
        file = self.files[name]
        try:
            with safe_open(self.path / file, framework="pt") as tensors:
                tensor = tensors.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise _broken(file, error) from error
        if tensor.dtype not in FLOATS:
            hint = "Use a checkpoint that is not quantized."
            raise UnsupportedModel("A weight is not stored as floats.", f"{name}, {tensor.dtype}", hint)
        return tensor


def open_folder(path: Path) -> TensorFolder:
    """List the tensors of a checkpoint folder without reading them.

    Raises CheckpointError if there are no safetensors, a file is broken, or the index and the shards disagree.
    """
    path = Path(path)
    if (path / INDEX).is_file():
        return TensorFolder(path, _indexed(path))
    if (path / SINGLE).is_file():
        return TensorFolder(path, dict.fromkeys(_names(path, SINGLE), SINGLE))
    if path.is_dir() and (shards := sorted(file.name for file in path.glob("*.safetensors"))):
        raise CheckpointError(
            "The folder has files of weights without their index.",
            ", ".join(shards[:3]),
            say("Fetch {}, which says what each file holds.", INDEX),
        )
    pickled = sorted(file.name for file in path.glob("*.bin")) if path.is_dir() else []
    hint = "Pickled weights are never opened; convert them to safetensors." if pickled else say("It needs {}.", SINGLE)
    raise CheckpointError("The folder has no safetensors weights.", ", ".join(pickled) or path.name, hint)


def read_json(path: Path, most: int = MAX_JSON_BYTES, *, constants: bool = False) -> dict:
    """Return the object in a JSON file of at most `most` bytes. Raises CheckpointError with the file's name on failure.

    With `constants`, NaN and Infinity are accepted as numbers, as Python and transformers write them.
    """
    try:
        if (size := path.stat().st_size) > most:
            got, hint = f"{path.name}: {size:,} bytes", say("At most {} bytes.", f"{most:,}")
            raise CheckpointError("The file is too large for its name.", got, hint)
        value = parse(path.read_text(encoding="utf-8"), constants=constants)
    except (OSError, ValueError) as error:
        raise CheckpointError("The file cannot be read as JSON.", f"{path.name}: {error}", "Fetch it again.") from error
    if not isinstance(value, dict):
        raise CheckpointError("The file does not hold a JSON object.", path.name, "Fetch it again.")
    return value


def _broken(file: str, error: Exception) -> CheckpointError:
    return CheckpointError("A weights file is damaged or truncated.", f"{file}: {error}", "Fetch the file again.")


def _names(path: Path, file: str) -> list[str]:
    """Return the names of the tensors in one file. Raises CheckpointError if its header does not match its length."""
    try:
        with safe_open(path / file, framework="pt") as tensors:
            return list(tensors.keys())
    except (OSError, SafetensorError) as error:
        if _is_pointer(path / file):
            hint = "Run git lfs pull in the folder, or download the file itself."
            raise CheckpointError("A weights file is only a pointer of Git LFS.", file, hint) from error
        raise _broken(file, error) from error


def _is_pointer(path: Path) -> bool:
    """Return whether a file is what Git leaves in place of a large file that was not fetched."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(LFS)) == LFS
    return False


def _indexed(path: Path) -> dict[str, str]:
    """Return {tensor: shard} from the index, verified against the contents of every shard."""
    index = read_json(path / INDEX).get("weight_map")
    if not (isinstance(index, dict) and index and all(isinstance(shard, str) for shard in index.values())):
        raise CheckpointError("The index of the weights has no weight_map.", INDEX, "Fetch the file again.")
    stored: dict[str, str] = {}
    for shard in sorted(set(index.values())):
        if not SHARD_NAME.fullmatch(shard):
            raise CheckpointError("The index names a file outside its folder.", shard, "Do not use this checkpoint.")
        if not (path / shard).is_file():
            raise CheckpointError("A file of weights is missing.", shard, "Fetch all files of the checkpoint.")
        for name in _names(path, shard):
            if name in stored:
                got = f"{name} in {stored[name]} and {shard}"
                raise CheckpointError("A weight occurs in two files.", got, "Fetch all files again.")
            stored[name] = shard
    for name in index.keys() | stored.keys():
        if index.get(name) != stored.get(name):
            got = f"{name}: index {index.get(name)}, files {stored.get(name)}"
            raise CheckpointError("The index and the files of the weights disagree.", got, "Fetch all files again.")
    return stored
