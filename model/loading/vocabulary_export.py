"""The vocabulary of a model on disk as files of a model folder, also where it came in a GGUF file."""

import json
from pathlib import Path

from model.errors import UnsupportedModel
from model.loading.gguf_file import read_gguf
from model.loading.sources import Resolved
from model.text.gguf_vocabulary import read_gguf as vocabulary_of
from model.text.vocabulary import SMOLLM_PATTERN, Vocabulary

NAMES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "vocab.json", "merges.txt")


def vocabulary_files(source: Resolved) -> dict[str, str]:
    """{file name: text} of the vocabulary of a model: copied from a folder, written anew from a GGUF file."""
    if source.kind == "gguf":
        return from_metadata(read_gguf(source.path).metadata)
    paths = [Path(source.path) / name for name in NAMES]
    return {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}


def from_metadata(metadata: dict) -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json of GGUF metadata; both give the same tokens.

    Raises UnsupportedModel for a way of splitting text that tokenizer.json is not written for here.
    """
    vocabulary = vocabulary_of(metadata)
    tokens = list(metadata["tokenizer.ggml.tokens"])
    special = {token.text for token in vocabulary.added}
    content = {
        "version": "1.0",
        "added_tokens": [
            {"id": token.id, "content": token.text, "special": token.special, "normalized": False}
            | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
            for token in vocabulary.added
        ],
        "normalizer": {"type": "NFC"} if vocabulary.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _splitting(vocabulary)},
        "post_processor": _begin(vocabulary, tokens) if vocabulary.add_bos else None,
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "vocab": {text: n for n, text in enumerate(tokens) if text not in special},
            "merges": list(metadata["tokenizer.ggml.merges"]),
        },
    }
    names = {"bos_token": vocabulary.bos_id, "eos_token": vocabulary.eos_id}
    config = {name: tokens[number] for name, number in names.items() if number is not None}
    config |= {"chat_template": vocabulary.chat_template} if vocabulary.chat_template else {}
    return {
        "tokenizer.json": json.dumps(content, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=2),
    }


def _begin(vocabulary: Vocabulary, tokens: list[str]) -> dict:
    """The step that puts the beginning of the text in front."""
    number = vocabulary.bos_id
    text = tokens[number]
    begin, whole = {"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, whole],
        "pair": [begin, whole, begin, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {text: {"id": text, "ids": [number], "tokens": [text]}},
    }


def _splitting(vocabulary: Vocabulary) -> list[dict]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    if vocabulary.pattern == SMOLLM_PATTERN:
        return [{"type": "Digits", "individual_digits": True}, level | {"use_regex": True}]
    if not vocabulary.pattern:
        raise UnsupportedModel("The pattern of this vocabulary cannot be used.", vocabulary.name, "")
    split = {"type": "Split", "pattern": {"Regex": vocabulary.pattern}, "behavior": "Isolated", "invert": False}
    return [split, level | {"use_regex": False}]
