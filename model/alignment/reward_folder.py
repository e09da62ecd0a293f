"""A reward model as a folder: reward.json, reward.safetensors (the head), and `body` if all weights were trained."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from model.alignment.reward_model import RewardModel
from model.errors import CheckpointError, plain, say
from model.gpt.transformer import Transformer
from model.loading.checkpoint import MAX_CONFIG_BYTES, build, load_folder, save_folder
from model.loading.safetensors_files import read_json

CONFIG, HEAD, BODY = "reward.json", "reward.safetensors", "body"
KIND = "reward model"


@dataclass(frozen=True)
class About:
    """Metadata of a reward model."""

    name: str
    base: str  # id of the base model
    body: bool  # True if the folder contains the complete model
    d_model: int
    weights: str  # fingerprint of the base's weights


def save_reward(path: Path, reward: RewardModel, *, name: str, base: str, body: bool, weights: str) -> About:
    """Write a reward model; `weights` is the fingerprint of its base model."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    about = About(plain(name)[:200], base, body, reward.model.config.d_model, weights)
    save_file({"weight": reward.weight.contiguous(), "bias": reward.bias.reshape(1)}, path / HEAD)
    if body:
        save_folder(path / BODY, reward.model)
    (path / CONFIG).write_text(json.dumps({"kind": KIND} | vars(about), indent=2) + "\n", encoding="utf-8")
    return about


def about_reward(path: Path) -> About:
    """Read the metadata of a folder. Raises CheckpointError if the folder is not a reward model."""
    values = read_json(Path(path) / CONFIG, MAX_CONFIG_BYTES)
    kinds = {"name": str, "base": str, "body": bool, "d_model": int, "weights": str}
    fits = values.get("kind") == KIND and values.keys() == kinds.keys() | {"kind"}
    if not fits or not all(type(values[key]) is kind for key, kind in kinds.items()):
        raise CheckpointError("The folder has no reward model.", Path(path).name, "Choose another folder.")
    return About(**{key: values[key] for key in kinds})


def load_reward(path: Path, base: Transformer) -> RewardModel:
    """Load the reward model of a folder. If only its head was trained, `base` must have the weights that it was trained
    on.

    Raises CheckpointError for missing or corrupt files, for a wrong shape, and for another base model.
    """
    path = Path(path)
    about = about_reward(path)
    try:
        tensors = load_file(path / HEAD)
    except (OSError, SafetensorError) as error:
        raise CheckpointError("A weights file is damaged or truncated.", HEAD, "Fetch the file again.") from error
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    if shapes != {"weight": ((about.d_model,), torch.float32), "bias": ((1,), torch.float32)}:
        raise CheckpointError("The head of the reward model has the wrong shape.", str(shapes)[:80], "Train it again.")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise CheckpointError("The head of the reward model is not finite.", HEAD, "Train it again.")
    model = base
    if about.body:
        model = build(*load_folder(path / BODY))
        model.join()
    elif fingerprint(base) != about.weights:
        hint = say("Load the model {} with it.", about.base)
        raise CheckpointError("The reward model was trained on another model.", about.base, hint)
    if model.config.d_model != about.d_model:
        got = f"{model.config.d_model}, {about.d_model}"
        raise CheckpointError("The head of the reward model has the wrong shape.", got, "Train it again.")
    return RewardModel(model, tensors["weight"], tensors["bias"][0])


def fingerprint(model: Transformer) -> str:
    """Compute the SHA-256 of a model's weights with their names, shapes and dtypes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
