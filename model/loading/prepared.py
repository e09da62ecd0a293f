"""A cache of prepared GGUF files beside the downloads.

An entry holds the float32 weights in memory order, their codes in the order in which decode steps read them, and the
vocabulary. Dequantization and the ranking of a vocabulary take seconds and are deterministic. The next load maps the
weights into memory (safetensors), and each is read from disk when a forward pass first needs it. An entry belongs to
one file, or all parts of a split one, and to one version of the code that reads it. It is used as long as both files
are unchanged, and rebuilt otherwise. If the disk is full or not writable, loading is only slower.
"""

import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.downloads import cache_dir
from model.errors import CheckpointError
from model.gpt.config import from_dict, to_dict
from model.gpt.transformer import Transformer
from model.kernels.coded import Codes
from model.loading.checkpoint import build
from model.loading.gguf_codes import codes_of
from model.loading.gguf_file import files_of, states_of
from model.private_folder import distrust, make_private
from model.text.tokenizer import Tokenizer, from_vocabulary
from model.text.vocabulary import AddedToken, Vocabulary

LEAST, MOST = 64 << 20, 1 << 30  # bytes of weights: smaller files load fast, larger ones would fill a disk
ROOM = 4  # minimum free disk space as a multiple of the size of the weights
_SPAN = 1 << 20  # number of bytes hashed at once
# Code that determines the cached results.
_CODE = (
    "loading",
    "text",
    *(f"gpt/{name}.py" for name in ("config", "transformer", "decode_step")),
    "kernels/coded.py",
    "kernels/row_sums.py",
)
log = logging.getLogger(__name__)
Opened = tuple[Transformer, Tokenizer, Codes | None]


def opened(source: Path, make: Callable[[], tuple[Transformer, Tokenizer]]) -> Opened:
    """Return the joined model, tokenizer and codes of a file from the cache, or create them with `make` and store them.

    Cached weights are bit-identical, and those of joined layers are adjacent. Errors of `make` propagate; the cache
    itself raises none.
    """
    try:
        path = kept_at(source)
    except (OSError, RuntimeError):  # for example a link to itself; reading the file then raises the error
        return *make(), None
    reason = next(filter(None, (distrust(each, path.parent) for each in (path, _seal_of(path)))), None)
    if reason:
        log.warning("Prepared weights in %s are not used: %s.", path.parent, reason)
    else:
        with contextlib.suppress(Exception):  # a broken cache entry is rebuilt
            return _read(source)
    model, vocabulary = make()
    model.join()
    codes = codes_of(source, model)
    with contextlib.suppress(OSError, ValueError, SafetensorError):
        if not reason:
            _write(source, model, vocabulary, codes)
    return model, vocabulary, codes


def kept_at(source: Path) -> Path:
    """Return the cache path of a file for the current version of the code."""
    place = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:12]
    return cache_dir() / f"{source.stem}.{place}.{_version()}.prepared.safetensors"


# --- reading ---------------------------------------------------------------------------------------


def _read(source: Path) -> Opened:
    """Read a cache entry. Raises an exception of any type if it is missing, or if either file has changed."""
    path = kept_at(source)
    seal = json.loads(_seal_of(path).read_text(encoding="utf-8"))
    if seal["kept"] != _state(path):
        raise ValueError("it was changed")
    if seal["source"] != states_of(source):  # it may only have been touched, so its content is compared
        if seal["sha256"] != _sha256(source):
            raise ValueError("it belongs to another file")
        _write_seal(path, seal | {"source": states_of(source)})
    with safe_open(path, framework="pt") as file:
        metadata = {name: json.loads(text) for name, text in file.metadata().items() if name != "format"}
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    state = {name: _part(stored[held], at, shape) for name, (held, at, shape) in metadata["index"].items()}
    model = build(from_dict(metadata["config"]), state)
    model.join()
    return model, from_vocabulary(_vocabulary(metadata["vocabulary"])), _codes(stored, metadata["codes"])


def _codes(stored: Mapping[str, Tensor], entry: dict | None) -> Codes | None:
    if entry is None:
        return None
    kept = {name: tuple(stored[each].numpy() for each in _code_names(name)) for name in entry["names"]}
    return Codes(entry["digest"], lambda: kept)


def _part(stored: Tensor, at: int, shape: list[int]) -> Tensor:
    return stored[at : at + torch.Size(shape).numel()].view(shape)


def _vocabulary(entry: dict) -> Vocabulary:
    raw = tuple(None if text is None else text.encode("latin-1") for text in entry.pop("raw"))
    ranks = {text.encode("latin-1"): rank for rank, text in enumerate(entry.pop("ranks"))}
    added = tuple(AddedToken(**each) for each in entry.pop("added"))
    several = {key: tuple(entry[key]) for key in ("rank_ids", "end_ids", "rows_that_end", "begin", "finish")}
    return Vocabulary(**entry | several | {"raw": raw, "ranks": ranks, "added": added})


# --- writing ---------------------------------------------------------------------------------------


def _write(source: Path, model: Transformer, tokenizer: Tokenizer, codes: Codes | None) -> None:
    """Store a model and its vocabulary, if their size and the disk allow it.
    Raises OSError if they cannot be written.
    """
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in state.values()}
    size = sum(tensor.untyped_storage().nbytes() for tensor in storages.values())
    if not LEAST <= size <= MOST or any(tensor.dtype != torch.float32 for tensor in state.values()):
        return
    path, vocabulary = kept_at(source), tokenizer.vocabulary
    make_private(path.parent)
    if shutil.disk_usage(path.parent).free < ROOM * size:
        return
    before, names = states_of(source), {at: f"weights.{n:05}" for n, at in enumerate(storages)}
    index = {
        name: (names[tensor.untyped_storage().data_ptr()], tensor.storage_offset(), list(tensor.shape))
        for name, tensor in state.items()
    }
    words = asdict(replace(vocabulary, raw=(), ranks={}, rank_ids=())) | {
        "raw": [None if raw is None else raw.decode("latin-1") for raw in vocabulary.raw],
        "ranks": [raw.decode("latin-1") for raw in sorted(vocabulary.ranks, key=vocabulary.ranks.__getitem__)],
        "rank_ids": vocabulary.rank_ids,
    }
    stored, code_entry = {names[at]: _flat(tensor) for at, tensor in storages.items()}, None
    if codes is not None:
        with contextlib.suppress(CheckpointError):
            strips = codes.strips()
            code_entry = {"digest": codes.digest, "names": [*strips]}
            for name, parts in strips.items():
                stored |= {each: torch.from_numpy(part) for each, part in zip(_code_names(name), parts, strict=True)}
    about = {"index": index, "config": to_dict(model.config), "vocabulary": words, "codes": code_entry}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        save_file(stored, part, {"format": "pt"} | {key: json.dumps(value) for key, value in about.items()})
        seal = {"sha256": _sha256(source), "source": before}
        if states_of(source) != before:
            return
        _remove_others(path)
        part.replace(path)
        _write_seal(path, seal | {"kept": _state(path)})
    finally:
        part.unlink(missing_ok=True)


def _code_names(name: str) -> tuple[str, str]:
    """Return the names under which a matrix's integers and scales are stored."""
    return f"codes.{name}.whole", f"codes.{name}.scale"


def _flat(tensor: Tensor) -> Tensor:
    """Return a tensor's complete storage as a vector."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // 4,), (1,), 0)


def _remove_others(path: Path) -> None:
    """Delete the cache entries of the same file for other versions of the code."""
    same = path.name.removesuffix(".prepared.safetensors").rpartition(".")[0]
    for old in path.parent.glob(f"{_literal(same)}.*.prepared.safetensors*"):
        if not old.name.startswith(path.name):
            with contextlib.suppress(OSError):
                old.unlink()


def _literal(name: str) -> str:
    """Escape a name for use as a literal glob pattern."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


# --- seals -----------------------------------------------------------------------------------------


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _write_seal(path: Path, seal: dict) -> None:
    part = _seal_of(path).with_name(f"{path.name}.{os.getpid()}.stamp.part")
    part.write_text(json.dumps(seal), encoding="utf-8")
    part.replace(_seal_of(path))


def _state(path: Path) -> list[int]:
    """Return the size and modification time of a file. If both are unchanged, the file has not been written to."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _sha256(source: Path) -> str:
    """Return the hash of a file, or of all parts of a split one."""
    digest = hashlib.sha256()
    for path in files_of(source):
        with path.open("rb") as file:
            while block := file.read(_SPAN):
                digest.update(block)
    return digest.hexdigest()


@functools.cache
def _version() -> str:
    """Return the version of the code that determines the cached results: a hash of its files."""
    root, digest = Path(__file__).parents[1], hashlib.sha256(torch.__version__.encode())
    for name in _CODE:
        for path in sorted((root / name).rglob("*.py")) if (root / name).is_dir() else [root / name]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
