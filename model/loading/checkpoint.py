"""Loading and saving of checkpoints: `load_folder`, `load_gguf`, `build`, `save_folder`."""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig, to_dict
from model.gpt.transformer import Transformer
from model.loading import gguf_models
from model.loading.convert import convert, skeleton
from model.loading.families import MODEL_TYPE, Family, family_of
from model.loading.gguf_file import Value
from model.loading.safetensors_files import SINGLE, open_folder, read_json
from model.progress import Progress

CONFIG = "config.json"
MAX_CONFIG_BYTES = 1 << 20  # maximum size; the largest published configs, with a list for every layer, have about 40 kB


def load_folder(
    path: Path, progress: Progress | None = None, *, stored: bool = False
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Load the config and the float32 weights of a folder with config.json and safetensors.

    With `stored` the weights are mapped from their files, in the types of the files. Raises CheckpointError for files
    that are missing, broken or inconsistent with each other, and for weights that do not fit in memory. Raises
    UnsupportedModel for an unsupported architecture.
    """
    family, config = read_config(path)
    files = open_folder(path)
    read = files.mapped if stored else files.read
    return config, convert(files.files, read, family.layout, config, progress, copied=not stored)


def read_config(path: Path) -> tuple[Family, ModelConfig]:
    """Read the config.json of a folder without loading weights. Raises the errors of `load_folder`."""
    path = Path(path)
    if not (path / CONFIG).is_file():
        raise CheckpointError("The folder has no config.json.", path.name, "Give the folder of a checkpoint.")
    values = read_json(path / CONFIG, MAX_CONFIG_BYTES, constants=True)
    family = family_of(values)
    config = family.to_config(values)
    return replace(family, layout=family.layout_for(values)), config


def load_gguf(path: Path, progress: Progress | None = None) -> tuple[ModelConfig, dict[str, Tensor], dict[str, Value]]:
    """Load the config, dequantized float32 weights and metadata (including the tokenizer) of a GGUF file, or
    of all parts of a split one.

    Raises CheckpointError for a broken file, and UnsupportedModel for an unsupported architecture or quantization.
    """
    file, architecture, config = gguf_models.open_model(Path(path))
    return config, convert(file.tensors, file.read, architecture.layout, config, progress), file.metadata


def build(config: ModelConfig, state: dict[str, Tensor]) -> Transformer:
    """Build the model in evaluation mode, with the tensors of `state` as parameters, without copying them.

    Raises CheckpointError if names or shapes do not match the config.
    """
    model = skeleton(config)
    tied = {"unembed.weight": state["embed.weight"]} if config.tie_embeddings and "embed.weight" in state else {}
    try:
        model.load_state_dict(state | tied, strict=True, assign=True)
    except RuntimeError as error:
        raise CheckpointError(
            "The weights do not fit the config.", str(error), "Load both from the same source."
        ) from error
    model.tie()
    return model.eval()


def save_folder(path: Path, model: Transformer, dtype: torch.dtype = torch.float32) -> None:
    """Write config.json and model.safetensors, the inverse of `load_folder`. Each file is written atomically.

    With float16, the file is half as large, and the weights are rounded to 11 significant bits.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_embeddings:
        state.pop("unembed.weight", None)
    values = {"model_type": MODEL_TYPE} | to_dict(model.config)
    handle, name = tempfile.mkstemp(dir=path, suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        save_file(state, temporary, metadata={"format": "pt"})
        temporary.replace(path / SINGLE)
        temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path / CONFIG)
    finally:
        temporary.unlink(missing_ok=True)
