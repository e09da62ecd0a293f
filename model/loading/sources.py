"""Sources of weights: the repository, the user's cache, the Hub, or a path from the command line."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model.downloads import SMOLLM2, cache_dir, hub_folder, is_cached, smollm2_path
from model.errors import CheckpointError, InputError, plain, say
from model.loading.gguf_file import files_of
from model.progress import Progress

__all__ = ["BUILT_IN", "BuiltIn", "Resolved", "available", "cache_dir", "hub_folder", "resolve", "smollm2_path"]

WEIGHTS = Path(__file__).parents[1] / "weights"
HUB_PREFIX = "hub:"


@dataclass(frozen=True)
class BuiltIn:
    """A model in the default list of the model picker."""

    id: str
    label: str
    line: str  # a one-sentence description
    download_bytes: int  # 0 if it is part of the repository
    n_params: int
    n_ctx: int  # context length in tokens
    chat: bool  # whether it was trained on conversations and has a chat template
    languages: tuple[str, ...] = ("en",)  # languages of the training text


@dataclass(frozen=True)
class Resolved:
    """Weights on this computer, ready to be loaded."""

    kind: Literal["folder", "gguf"]
    path: Path
    model_id: str
    label: str


BUILT_IN: tuple[BuiltIn, ...] = (
    BuiltIn(
        "tinygpt",
        "TinyGPT",
        "A small GPT-2-style model trained by this project; loads at once.",
        0,
        8_546_816,
        512,
        False,
    ),
    BuiltIn(
        "smollm2-135m",
        "SmolLM2 135M Instruct",
        "A real chat model of 30 layers and 9 heads, stored with 4 bits a weight; Apache-2.0.",
        SMOLLM2.wheel_bytes,
        134_515_008,
        8_192,
        True,
    ),
    BuiltIn(
        "tinymamba",
        "TinyMamba",
        "A very small model with two Mamba layers and one of attention, trained by this project; loads at once.",
        0,
        149_696,
        256,
        False,
    ),
)
BUNDLED = ("tinygpt", "tinymamba")  # the weights of these are part of the repository


def available() -> tuple[str, ...]:
    """Return the ids of the built-in models whose weights are already on this computer."""
    present = {name: (WEIGHTS / name / "model.safetensors").is_file() for name in BUNDLED}
    present["smollm2-135m"] = is_cached(SMOLLM2)
    return tuple(model.id for model in BUILT_IN if present[model.id])


def resolve(
    model_id: str, progress: Progress | None = None, *, offline: bool = False, allow_paths: bool = False
) -> Resolved:
    """Find the weights of a model id, and download them if necessary.

    The id is that of a built-in model, "hub:OWNER/NAME", or, with `allow_paths`, a path. Raises InputError for an
    unknown id, DownloadError if the weights cannot be downloaded, and CheckpointError if the bundled model is missing
    or a repository has no safetensors.
    """
    labels = {model.id: model.label for model in BUILT_IN}
    if model_id in BUNDLED:
        folder = WEIGHTS / model_id
        if not folder.is_dir():
            hint = "Restore the folder model/weights from the repository."
            raise CheckpointError("The bundled model is missing.", f"model/weights/{model_id}", hint)
        return Resolved("folder", folder, model_id, labels[model_id])
    if model_id == "smollm2-135m":
        return Resolved("gguf", smollm2_path(progress, offline=offline), model_id, labels[model_id])
    if model_id.startswith(HUB_PREFIX):
        repo = model_id.removeprefix(HUB_PREFIX)
        return Resolved("folder", hub_folder(repo, progress, offline=offline), model_id, repo)
    if allow_paths and (local := _local(model_id)):
        return local
    known = ", ".join([*labels, "hub:OWNER/NAME"] + (["a folder", "a .gguf file"] if allow_paths else []))
    raise InputError("No model has this name.", _short(model_id), say("Choose one of: {}.", known))


def _local(model_id: str) -> Resolved | None:
    """Return an existing folder or .gguf file. Its id is the resolved path, so that two names of one file are one
    model; for a part of a split file, the first part is returned.
    """
    try:
        path = Path(model_id).expanduser().resolve()
        kind = "folder" if path.is_dir() else "gguf" if path.is_file() and path.suffix.lower() == ".gguf" else None
        if kind == "gguf" and (first := files_of(path)[0]).is_file():
            path = first
    except (OSError, ValueError, RuntimeError):  # e.g. too long, with a NUL byte or an unknown home directory
        return None
    return Resolved(kind, path, str(path), plain(path.name)) if kind else None


def _short(text: str) -> str:
    """Shorten a string to at most 80 characters on one line, for an error message."""
    return re.sub(r"\s+", " ", text)[:80]
