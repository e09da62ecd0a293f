"""Export of a model's vocabulary, from a folder or a GGUF file, to the tokenizer files of a model folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from model.errors import UnsupportedModel
from model.loading.gguf_file import read_gguf
from model.loading.sources import Resolved
from model.text.gguf_vocabulary import read_gguf as vocabulary_of
from model.text.library.folders import folder_content
from model.text.vocabulary import SMOLLM_PATTERN, Vocabulary
from model.text.vocabulary_settings import (
    DEFAULT,
    GENERATION_CONFIG,
    MORE_TEMPLATES,
    TEMPLATE,
    TOKENIZER_CONFIG,
    TOKENS_MAP,
    read_settings,
)

NAMES = (
    *("tokenizer.json", TOKENIZER_CONFIG, TOKENS_MAP, GENERATION_CONFIG),
    *(TEMPLATE, f"{MORE_TEMPLATES}/*.jinja", "vocab.json", "merges.txt", "added_tokens.json"),
)


def vocabulary_files(source: Resolved) -> dict[str, str]:
    """Return {file name: text} of the vocabulary of a model, copied from a folder or generated from a GGUF file.

    A file name may include a subfolder. End tokens that only the folder's config.json names are written to a
    generation_config.json, since the model's new config.json does not name them.
    """
    if source.kind == "gguf":
        return from_metadata(read_gguf(source.path).metadata)
    folder = Path(source.path)
    paths = [path for name in NAMES for path in sorted(folder.glob(name)) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    settings = read_settings(folder)
    if not files.keys() & {"tokenizer.json", "vocab.json"} and (content := folder_content(folder, settings)):
        files["tokenizer.json"] = json.dumps(content, ensure_ascii=False)
    return _ends(settings.end_ids) | files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files returned by `vocabulary_files` to a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _ends(ids: Sequence[int]) -> dict[str, str]:
    """Return a generation_config.json with the tokens that end a text, or no file if there are no ids."""
    return {GENERATION_CONFIG: json.dumps({"eos_token_id": list(ids)}, indent=2)} if ids else {}


def from_metadata(metadata: dict) -> dict[str, str]:
    """Convert GGUF metadata to tokenizer.json, tokenizer_config.json and, for end tokens, generation_config.json.

    The files give the same tokens as the metadata. Raises UnsupportedModel for a pre-tokenizer without a tokenizer.json
    equivalent.
    """
    vocabulary = vocabulary_of(metadata)
    if vocabulary.library:
        return {"tokenizer.json": vocabulary.library} | _settings_files(vocabulary)
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
    return {"tokenizer.json": json.dumps(content, ensure_ascii=False)} | _settings_files(vocabulary)


def _settings_files(vocabulary: Vocabulary) -> dict[str, str]:
    """Return tokenizer_config.json and, for end tokens, generation_config.json."""
    config = dict(vocabulary.named)
    templates = dict(vocabulary.other_templates)
    templates |= {DEFAULT: vocabulary.chat_template} if vocabulary.chat_template else {}
    if templates:
        config["chat_template"] = vocabulary.chat_template if [*templates] == [DEFAULT] else templates
    return {TOKENIZER_CONFIG: json.dumps(config, ensure_ascii=False, indent=2)} | _ends(vocabulary.end_ids)


def _begin(vocabulary: Vocabulary, tokens: list[str]) -> dict:
    """Return the post-processor that prepends the beginning-of-text token."""
    number = vocabulary.bos_id
    text = tokens[number]
    begin, sequence = {"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, sequence],
        "pair": [begin, sequence, begin, {"Sequence": {"id": "B", "type_id": 1}}],
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
