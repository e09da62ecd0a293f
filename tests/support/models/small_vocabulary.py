"""A vocabulary of bytes and a few merges, as the files of the formats have it."""

import json

from model.text.bpe_ranks import ALPHABET

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "â ĸ", "Ġ Ġ"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def small_vocab() -> dict[str, int]:
    """<|end|> is id 0; the merged tokens come next, last merge first; the bytes come after them, in falling order."""
    tokens = ["<|end|>", *(merge.replace(" ", "") for merge in reversed(MERGES)), *reversed(list(ALPHABET))]
    return {token: number for number, token in enumerate(tokens)}


def small_json() -> dict:
    return {
        "added_tokens": [{"id": 0, "content": "<|end|>", "special": True, "normalized": False}],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "model": {"type": "BPE", "vocab": small_vocab(), "merges": list(MERGES)},
    }


def small_gguf() -> dict:
    vocab = small_vocab()
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": list(vocab),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.token_type": [3] + [1] * (len(vocab) - 1),
        "tokenizer.ggml.eos_token_id": 0,
    }


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
