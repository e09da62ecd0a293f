"""Folders of tiny encoders with random weights and a WordPiece vocabulary that splits words."""

import json
from pathlib import Path

import torch

from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from tests.support.models.helpers import shake

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,?!"]
WORDS += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
WORDS += [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "because",
    "it",
    "was",
    "ti",
    "##red",
    "dog",
    "paris",
    "is",
    "capital",
    "of",
]
TEXT = "The cat [MASK] on the mat because it was tired"
SHAPE = {"n_ctx": 64, "n_layer": 3, "d_model": 48, "n_head": 4, "d_mlp": 100, "n_segment": 2} | {
    "norm_placement": "post"
}
HEAD = {"head_dense": True, "head_bias": True}


def encoder_config(*, head: bool = True, **shape: object) -> ModelConfig:
    """The config of a tiny BERT, with its head of masked tokens or without a head."""
    kind = HEAD if head else {"headless": True}
    return ModelConfig(**{"vocab_size": len(WORDS), "two_way": True, "embed_norm": True, **SHAPE, **kind, **shape})


def save_encoder(folder: Path, *, head: bool = True, **shape: object) -> Path:
    """Write a tiny shaken BERT and its vocab.txt, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(encoder_config(head=head, **shape))
        shake(model, torch.Generator().manual_seed(0))
    save_folder(folder, model)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    named = {"mask_token": "[MASK]", "sep_token": "[SEP]", "cls_token": "[CLS]"}
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
