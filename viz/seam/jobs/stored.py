"""Stored results of slow measures, so that their views show something before a visitor presses the button.

`python -m viz.page.store` runs the slow measures of the default model and prompt, and those of the other built-in
models that need no prompt, and writes one file per result. The name of a file is a digest of its question, with model
and prompt, so it is used only for that question.
"""

import base64
import dataclasses
import functools
import gzip
import hashlib
import json
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from model import PREFIX
from model.downloads import SMOLLM2
from model.loading.sources import WEIGHTS
from viz.seam.jobs.background import Result

FOLDER = Path(__file__).parents[2] / "stored"
MODELS = ("tinygpt", "smollm2-135m")  # the models that the results are of
MODEL = MODELS[0]  # the model with results of every slow measure
PROMPT = "The cat sat on the mat because it was tired"  # their prompt, with which the page opens, too
SHORT = 16  # characters of a digest
AT = -1.0  # their time of completion: before anything that is computed here
_CONTAINERS = {"list": list, "tuple": tuple, "frozenset": frozenset}
OURS = ("model.", "viz.")  # modules whose dataclasses a file may name, by their names in a clone


def name_of(key: Hashable) -> str:
    """Return the file name of a question's result: a digest of its key."""
    return f"{_digest(repr(key).encode())}.json.gz"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:SHORT]


@functools.cache
def names() -> frozenset[str]:
    """Return the names of all stored files."""
    return frozenset(path.name for path in FOLDER.glob("*.json.gz"))


def weights_of(model: str) -> str:
    """Return a short digest of a model's weights, by which results of other weights are noticed."""
    if model == "smollm2-135m":  # checked when it is downloaded
        return SMOLLM2.member_sha256[:SHORT]
    return _digest((WEIGHTS / model / "model.safetensors").read_bytes())


def content_of(name: str) -> dict:
    """Return the content of a stored file."""
    return json.loads(gzip.decompress((FOLDER / name).read_bytes()))


def stored(key: Hashable) -> Result | None:
    """Return the stored result of a question to one of MODELS; None without one."""
    name = name_of(key)
    return _read(name) if name in names() else None


@functools.lru_cache(maxsize=64)
def _read(name: str) -> Result:
    content = content_of(name)
    return Result(decode(content["value"]), content["seconds"], at=AT, threads=content["threads"])


def write(key: Hashable, value: object, **about: str | float) -> int:
    """Write a result and return the size of its file in bytes.

    `about`: model, job (the name of its button), seconds, threads, and weights (`weights_of`), which a test compares.
    """
    content = {**about, "value": encode(value)}
    data = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0)
    (FOLDER / name_of(key)).write_bytes(data)
    return len(data)


def encode(value: Any) -> Any:
    """Convert a result to JSON. Containers become ["kind", ...]; raises TypeError for a type that cannot be stored."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return ["float", repr(value)]
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, torch.Tensor):
        return ["tensor", encode(value.numpy())]
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]
    if isinstance(value, pd.DataFrame):
        return ["frame", encode(list(value.index.names)), encode(list(value.index)), encode(value.to_dict("list"))]
    if type(value) in _CONTAINERS.values():
        return [type(value).__name__, *map(encode, sorted(value) if isinstance(value, frozenset) else value)]
    if isinstance(value, Mapping):
        return ["dict", *([encode(key), encode(each)] for key, each in value.items())]
    if dataclasses.is_dataclass(value) and _ours(type(value).__module__):
        fields = {each.name: encode(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return ["class", _ours(type(value).__module__), type(value).__qualname__, fields]
    return _refuse(value)


def _ours(module: str) -> str:
    """Return the name that a module of this project has in a clone, "" for any other module."""
    name = module.removeprefix(PREFIX)
    return name if module.startswith(PREFIX) and name.startswith(OURS) else ""


def _refuse(value: object) -> Any:
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} cannot be stored")


def decode(value: Any) -> Any:
    """Convert JSON back to a result, the inverse of `encode`."""
    if not isinstance(value, list):
        return value
    kind, *items = value
    if kind == "float":
        return float(items[0])
    if kind == "tensor":
        return torch.from_numpy(decode(items[0]))
    if kind == "array":
        dtype, shape, data = items
        return np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape).copy()
    if kind == "frame":
        levels, rows, columns = map(decode, items)
        index = pd.MultiIndex.from_tuples(rows, names=levels) if len(levels) > 1 else pd.Index(rows, name=levels[0])
        return pd.DataFrame(columns, index=index)
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](map(decode, items))
    if kind == "dict":
        return {decode(key): decode(each) for key, each in items}
    module, name, fields = items
    cls = (
        getattr(sys.modules.get(PREFIX + module), name, None) if _ours(PREFIX + module) else None
    )  # imported by its view
    if kind != "class" or not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"{module}.{name} cannot be read")
    return cls(**{each: decode(of) for each, of in fields.items()})
