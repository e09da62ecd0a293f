"""Folders of tiny models with random weights and a vocabulary of their own, which open at once."""

from pathlib import Path

import torch

from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.loading.sources import Resolved
from model.training import data

TEXT = "The cat sat on the mat because it was tired."
SIZE = {"n_ctx": 256, "n_layer": 1, "d_model": 16, "n_head": 2}
LLAMA = {"norm": "rmsnorm", "norm_bias": False, "positions": "rope", "mlp": "swiglu"}


def save_tiny(folder: Path, **shape: object) -> Resolved:
    """Write config.json, model.safetensors and tokenizer.json; `shape` overrides fields of SIZE."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = data.train_vocabulary([TEXT], 270)
    (folder / "tokenizer.json").write_text(vocabulary, encoding="utf-8")
    size = data.read_vocabulary(vocabulary).vocab_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_folder(folder, Transformer(ModelConfig(**{"vocab_size": size, **SIZE, **shape})))
    return Resolved("folder", folder, "tiny", "Tiny")
