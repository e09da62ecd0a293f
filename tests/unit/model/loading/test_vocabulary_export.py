"""The vocabulary of a GGUF file, written as the files of a model folder: the same tokens."""

import json

import pytest

from model.loading.sources import resolve
from model.loading.vocabulary_export import from_metadata, vocabulary_files
from model.text.tokenizer import from_folder, from_gguf
from model.training import data


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_the_metadata_of_a_gguf_file_are_written_as_json(pre, tmp_path):
    """The same tokens from the file that is written as from the metadata."""
    alphabet = json.loads(data.train_vocabulary(["low lower 12"], 262))
    tokens = [*alphabet["model"]["vocab"], "<|end|>"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in alphabet["model"]["merges"]],
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 1) + [3],
        "tokenizer.ggml.bos_token_id": len(tokens) - 1,
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.chat_template": "{{ messages }}",
    }
    for name, text in from_metadata(metadata).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ours, theirs = from_folder(tmp_path), from_gguf(metadata)
    for text in ("low lower 12  123 e\u0301<|end|>", "  a\n\n b"):
        for special in (False, True):
            assert ours.encode_ids(text, special=special) == theirs.encode_ids(text, special=special)
    same = ("vocab_size", "special", "bos_id", "eos_id", "add_bos", "chat_template")
    assert all(getattr(ours, name) == getattr(theirs, name) for name in same)


def test_a_folder_is_copied():
    source = resolve("tinygpt")
    files = vocabulary_files(source)
    assert set(files) == {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}
    ends = json.loads((source.path / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    assert json.loads(files["generation_config.json"]) == {"eos_token_id": [ends]}
    assert files["tokenizer.json"] == (source.path / "tokenizer.json").read_text(encoding="utf-8")
