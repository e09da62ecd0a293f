"""Folders of tiny models with random weights and a vocabulary of their own, which open at once."""

from pathlib import Path

import torch

from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.loading.sources import Resolved
from model.training import data
from tests.support.models.helpers import shake

TEXT = "The cat sat on the mat because it was tired."
SIZE = {"n_ctx": 256, "n_layer": 1, "d_model": 16, "n_head": 2}
LLAMA = {"norm": "rmsnorm", "norm_bias": False, "positions": "rope", "mlp": "swiglu"}


def save_tiny(folder: Path, *, shaken: bool = False, **shape: object) -> Resolved:
    """Write config.json, model.safetensors and tokenizer.json; `shape` overrides fields of SIZE.

    With `shaken`, the weights are far from their initial values, so that no pattern is flat.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = data.train_vocabulary([TEXT], 270)
    (folder / "tokenizer.json").write_text(vocabulary, encoding="utf-8")
    size = data.read_vocabulary(vocabulary).vocab_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(**{"vocab_size": size, **SIZE, **shape}))
        if shaken:
            shake(model, torch.Generator().manual_seed(0))
        save_folder(folder, model)
    return Resolved("folder", folder, "tiny", "Tiny")
