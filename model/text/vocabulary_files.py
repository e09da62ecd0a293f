"""Vocabularies of Hub model folders: tokenizer.json, or vocab.json and merges.txt."""

import json
from collections.abc import Mapping
from pathlib import Path

from model.errors import CheckpointError, UnsupportedModel
from model.text.bpe_ranks import ALPHABET, FRESH_COPY
from model.text.patterns import check_pattern
from model.text.vocabulary import (
    GPT2_PATTERN,
    QWEN_PATTERN,
    SMOLLM_PATTERN,
    AddedToken,
    Vocabulary,
    as_merges,
    as_vocab,
    byte_level,
    read_json,
    read_text,
    refuse,
)
from model.text.vocabulary_settings import VocabularySettings, with_settings

# the splitting pattern of each class of transformers whose vocabulary is in vocab.json and merges.txt
_PATTERNS = {"GPT2": GPT2_PATTERN, "CodeGen": GPT2_PATTERN, "Qwen2": QWEN_PATTERN}


def _steps(value: object, key: str) -> list[dict]:
    """Return the steps of a part of tokenizer.json in order; `key` is the field that holds the steps of a Sequence.

    A Sequence is replaced by its steps, even if nested; an empty one does nothing. An invalid step becomes {}.
    """
    steps: list[dict] = []
    left = [] if value is None else [value]
    while left:
        step = left.pop()
        if isinstance(step, dict) and step.get("type") == "Sequence" and isinstance(step.get(key), list):
            left += reversed(step[key])
        else:
            steps.append(step if isinstance(step, dict) else {})
    return steps


def _json_pattern(pre: object) -> str:
    """Return the splitting pattern of the pre-tokenizers of a tokenizer.json. Raises UnsupportedModel if one is
    unknown.
    """
    steps = _steps(pre, "pretokenizers")
    kinds = [step.get("type") for step in steps]
    supported = "Supported are ByteLevel, Split by a regex + ByteLevel, and Digits one by one + ByteLevel."
    if not kinds or kinds[-1] != "ByteLevel":
        raise refuse("pre-tokenizer", kinds, supported)
    first, last = steps[0], steps[-1]
    if last.get("add_prefix_space", True):
        raise refuse("pre-tokenizer", "ByteLevel with add_prefix_space", supported)
    gpt2 = last.get("use_regex", True)
    if len(kinds) == 1 and gpt2:
        return GPT2_PATTERN
    if kinds == ["Digits", "ByteLevel"] and first.get("individual_digits") and gpt2:
        return SMOLLM_PATTERN
    if kinds == ["Split", "ByteLevel"] and not gpt2 and first.get("behavior") == "Isolated" and not first.get("invert"):
        pattern = first.get("pattern")
        if isinstance(pattern, dict) and isinstance(pattern.get("Regex"), str):
            return check_pattern(pattern["Regex"])
    raise refuse("pre-tokenizer", json.dumps(steps), supported)


def _json_nfc(normalizer: object) -> bool:
    """Return whether the normalizer is NFC; False if there is no normalizer. Raises UnsupportedModel for any other."""
    kinds = set()
    for step in _steps(normalizer, "normalizers"):
        if step.get("type") == "Strip" and step.get("strip_left") is step.get("strip_right") is False:
            continue
        if step.get("type") != "NFC":
            raise refuse("normalizer", json.dumps(normalizer), "Supported are none and NFC.")
        kinds.add("NFC")
    return bool(kinds)


def _json_bos(post: object) -> int | None:
    """Return the id that the post-processor puts first, or None if it adds nothing. Raises UnsupportedModel for
    anything else.
    """
    bos = None
    for step in _steps(post, "processors"):
        kind = step.get("type")
        if kind == "ByteLevel":  # affects only offsets, which are not used
            continue
        try:
            if kind != "TemplateProcessing":
                raise KeyError(kind)
            *front, text = step["single"]
            if "Sequence" not in text or len(front) > 1:
                raise KeyError(kind)
            for item in front:
                (bos,) = step["special_tokens"][item["SpecialToken"]["id"]]["ids"]
                if type(bos) is not int:
                    raise TypeError(bos)
        except (KeyError, TypeError, ValueError) as error:
            raise refuse("post-processor", json.dumps(step), "Supported are none, ByteLevel and one BOS.") from error
    return bos


def _json_added(items: object) -> list[AddedToken]:
    added = []
    for item in items if isinstance(items, list) else [items]:
        text, number = (item.get("content"), item.get("id")) if isinstance(item, dict) else (None, None)
        if not isinstance(text, str) or not text or type(number) is not int:
            raise CheckpointError("An added token has no text or no id.", str(item)[:80], FRESH_COPY)
        flags = [flag for flag in ("single_word", "lstrip", "rstrip") if item.get(flag)]
        if flags:
            raise refuse("added token", f"{text!r} with {', '.join(flags)}", "Added tokens must match as they stand.")
        added.append(AddedToken(text, number, bool(item.get("special")), after_nfc=bool(item.get("normalized"))))
    return added


def read_tokenizer_json(path: Path, settings: VocabularySettings) -> Vocabulary:
    """Read the vocabulary of a tokenizer.json, with the settings of the files beside it.

    Raises CheckpointError for a broken file, UnsupportedModel for unsupported steps.
    """
    return json_vocabulary(read_json(path), path.parent.name or path.stem, settings)


def json_vocabulary(content: Mapping, name: str, settings: VocabularySettings) -> Vocabulary:
    """Read the vocabulary in the content of a tokenizer.json. Raises the errors of `read_tokenizer_json`."""
    model = content.get("model")
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    if kind != "BPE":
        raise refuse("tokenizer model", kind, "In tokenizer.json, BPE is supported.")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout"):
        if model.get(key):
            raise refuse("BPE option", f"{key} = {model[key]}", "Byte-level BPE without it is supported.")
    vocab = as_vocab(model.get("vocab"), "The vocabulary in tokenizer.json")
    merges = as_merges(model.get("merges"), "The merges in tokenizer.json")
    nfc, bos = _json_nfc(content.get("normalizer")), _json_bos(content.get("post_processor"))
    added = _json_added(content.get("added_tokens") or [])
    base = Vocabulary(
        name=name,
        pattern=_json_pattern(content.get("pre_tokenizer")),
        raw=(),
        ranks={},
        rank_ids=(),
        nfc=nfc,
        bos_id=bos,
        add_bos=bos is not None,
    )
    full = byte_level(vocab, merges, added, bool(model.get("ignore_merges")), base)
    if bos is not None and not 0 <= bos < len(full.raw):
        raise CheckpointError("The BOS token is not in the vocabulary.", str(bos), FRESH_COPY)
    return with_settings(full, vocab | {token.text: token.id for token in added}, added, settings)


def read_vocab_merges(vocab_path: Path, merges_path: Path, settings: VocabularySettings) -> Vocabulary:
    """Read the vocabulary of vocab.json and merges.txt; a token that no merge produces is treated as special, unless
    the settings list it as an added token.

    These two files do not include the splitting pattern, which follows from the tokenizer's class. Raises
    CheckpointError for a broken file, UnsupportedModel for an unknown class.
    """
    kind = settings.kind.removesuffix("Fast").removesuffix("Tokenizer")
    if kind not in _PATTERNS:
        what = "vocab.json and merges.txt are not supported for this class of tokenizers."
        raise UnsupportedModel(what, settings.kind, "Add its tokenizer.json.")
    vocab = as_vocab(read_json(vocab_path), vocab_path.name)
    lines = [line.rstrip("\r") for line in read_text(merges_path).split("\n")]
    lines = lines[1:] if lines[0].startswith("#version") else lines
    merges = as_merges([line for line in lines if line], merges_path.name)
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    listed = {token.text: token for token in _json_added(list(settings.added))}
    found = [AddedToken(token, number, True) for token, number in vocab.items() if token not in mergeable]
    added = [*listed.values(), *(token for token in found if token.text not in listed)]
    name = vocab_path.parent.name or "GPT-2 files"
    base = Vocabulary(name, _PATTERNS[kind], raw=(), ranks={}, rank_ids=(), nfc=kind == "Qwen2")
    full = byte_level(vocab, merges, added, False, base)
    return with_settings(full, vocab | {token.text: token.id for token in added}, added, settings)
