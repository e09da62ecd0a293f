"""Tokenizer files of a model folder that are not a tokenizer.json: sentencepiece's tokenizer.model, and vocab.txt."""

import base64
import struct
from collections.abc import Iterator
from pathlib import Path

from model.errors import CheckpointError, say
from model.text.bpe_ranks import FRESH_COPY
from model.text.library.pieces import CONTROL, NORMAL, UNKNOWN, content_of_pieces
from model.text.vocabulary import read_json, read_text, refuse
from model.text.vocabulary_settings import TOKENIZER_CONFIG, VocabularySettings

SENTENCEPIECE, WORDS = "tokenizer.model", "vocab.txt"
_OTHER_NAMES = ("spiece.model", "sentencepiece.bpe.model")
_MODEL_KINDS = {1: "unigram", 2: "bpe"}
_MOST_BYTES = 1 << 26
# Classes of transformers that put BOS before a text, unless their configuration decides otherwise.
_BEGINNING = ("Llama", "CodeLlama", "Gemma")


def folder_content(folder: Path, settings: VocabularySettings) -> dict | None:
    """Return the content of a tokenizer.json for the tokenizer files of a folder, or None if it has none.

    Raises CheckpointError if a file is broken, UnsupportedModel for an unknown kind of model.
    """
    config = read_json(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).is_file() else {}
    for name in (SENTENCEPIECE, *_OTHER_NAMES):
        if (folder / name).is_file():
            content = sentencepiece_content((folder / name).read_bytes(), name)
            content = _with_added(content, settings)
            return content | {"post_processor": _beginning(content, settings, config)}
    if (folder / WORDS).is_file():
        return _with_added(_words_content(read_text(folder / WORDS), config), settings)
    return None


def _with_added(content: dict, settings: VocabularySettings) -> dict:
    """Add the added tokens of the settings, which take precedence."""
    listed = {token["id"]: token for token in settings.added}
    known = {token["id"]: token for token in content["added_tokens"]}
    return content | {"added_tokens": [token for _, token in sorted((known | listed).items())]}


def _beginning(content: dict, settings: VocabularySettings, config: dict) -> dict | None:
    """Return the post-processor that puts BOS before a text and EOS after it, as the class of the tokenizer does."""
    kind = settings.kind.removesuffix("Fast").removesuffix("Tokenizer")
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    bos, eos = (str(settings.named.get(key, text)) for key, text in (("bos_token", "<s>"), ("eos_token", "</s>")))
    first = config.get("add_bos_token", kind in _BEGINNING) and bos in ids
    last = config.get("add_eos_token", kind == "T5") and eos in ids
    return template([bos] if first else [], [eos] if last else [], ids) if first or last else None


def template(first: list[str], last: list[str], ids: dict[str, int]) -> dict:
    """Return a post-processor that puts special tokens before and after a text."""

    def sequence(name: str, kind: int) -> list[dict]:
        own = [{"SpecialToken": {"id": text, "type_id": kind}} for text in last]
        return [{"Sequence": {"id": name, "type_id": kind}}, *own]

    begin = [{"SpecialToken": {"id": text, "type_id": 0}} for text in first]
    return {
        "type": "TemplateProcessing",
        "single": begin + sequence("A", 0),
        "pair": begin + sequence("A", 0) + sequence("B", 1),
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in dict.fromkeys([*first, *last])},
    }


# --- WordPiece ---


def _words_content(text: str, config: dict) -> dict:
    """Return the content for a vocab.txt: a token on each line, with BERT's normalizer and pre-tokenizer."""
    pieces = text.removesuffix("\n").split("\n")
    pieces = [piece.rstrip("\r") for piece in pieces]
    special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    types = [UNKNOWN if piece == "[UNK]" else CONTROL if piece in special else NORMAL for piece in pieces]
    content = content_of_pieces("wordpiece", pieces, types=types)
    ids = {piece: number for number, piece in enumerate(pieces)}
    content["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True) is True,
        "strip_accents": config.get("strip_accents"),
        "lowercase": config.get("do_lower_case", True) is True,
    }
    content["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    content["decoder"] |= {"cleanup": True}
    if "[CLS]" in ids and "[SEP]" in ids:
        content["post_processor"] = template(["[CLS]"], ["[SEP]"], ids)
    return content


# --- sentencepiece: the fields of its model file that are needed (sentencepiece_model.proto) ---


def sentencepiece_content(data: bytes, name: str) -> dict:
    """Return the content of a tokenizer.json for the bytes of a sentencepiece model.

    Raises CheckpointError if it is broken, UnsupportedModel for a model of words or characters.
    """
    if len(data) > _MOST_BYTES:
        raise CheckpointError("A vocabulary file is implausibly large.", name, FRESH_COPY)
    pieces, scores, types = [], [], []
    trainer: dict[int, object] = {}
    normalizer: dict[int, object] = {}
    try:
        for field, value in _fields(data):
            if field == 1:
                piece = dict(_fields(value))
                pieces.append(piece.get(1, b"").decode())
                scores.append(_float(piece.get(2, b"\0\0\0\0")))
                types.append(piece.get(3, NORMAL))
            elif field == 2:
                trainer = dict(_fields(value))
            elif field == 3:
                normalizer = dict(_fields(value))
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        what = say("{} is not a sentencepiece model.", name)
        raise CheckpointError(what, str(error)[:80], FRESH_COPY) from error
    if not pieces:
        raise CheckpointError(say("{} is not a sentencepiece model.", name), "no pieces", FRESH_COPY)
    kind = trainer.get(3, 1)
    if kind not in _MODEL_KINDS:
        raise refuse("tokenizer model", f"sentencepiece, model_type = {kind}", "Unigram and BPE are supported.")
    return content_of_pieces(
        _MODEL_KINDS[kind],
        pieces,
        scores=scores,
        types=types,
        space_first=bool(normalizer.get(3, 1)),
        one_space=bool(normalizer.get(4, 1)),
        charsmap=base64.b64encode(normalizer.get(2, b"")).decode(),
    )


def _fields(data: bytes) -> Iterator[tuple[int, object]]:
    """Yield (number, value) of the fields of a message: an integer, or bytes. Raises ValueError if it is broken."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _number(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError("it ends early")
        yield key >> 3, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length: (value, where it ends)."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")


def _float(data: bytes) -> float:

    return struct.unpack("<f", data)[0]
