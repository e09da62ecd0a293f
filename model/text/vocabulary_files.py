"""Vocabularies of Hub model folders: tokenizer.json, or vocab.json and merges.txt."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from model.errors import CheckpointError, say
from model.text.bpe_ranks import ALPHABET, FRESH_COPY
from model.text.patterns import check_pattern
from model.text.vocabulary import (
    GPT2_PATTERN,
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
from model.text.vocabulary_settings import DEFAULT, TOKENIZER_CONFIG, VocabularySettings


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


def _token_id(text: str | list[str] | None, key: str, ids: Mapping[str, int]) -> int | None:
    """Return the id of the token that the files name under `key`, or None if they name no token."""
    if text is None:
        return None
    if not isinstance(text, str) or text not in ids:
        what = say("The {} in {} is not in the vocabulary.", key, TOKENIZER_CONFIG)
        raise CheckpointError(what, str(text)[:80], FRESH_COPY)
    return ids[text]


def _with_settings(
    base: Vocabulary, ids: Mapping[str, int], added: Sequence[AddedToken], settings: VocabularySettings
) -> Vocabulary:
    """Fill in `base` with the settings of the files beside it; a single special token is both BOS and EOS, as in
    GPT-2.

    End tokens outside the vocabulary are stored in `rows_that_end` until the model's rows are known.
    """
    special = [token.id for token in added if token.special]
    bos, eos = (_token_id(settings.named.get(key), key, ids) for key in ("bos_token", "eos_token"))
    ends = [_token_id(text, "eos_token", ids) for text in settings.end_texts]
    ends += [number for number in settings.end_ids if 0 <= number < len(base.raw)]
    if bos is None and eos is None and len(special) == 1:
        bos = eos = special[0]
    if eos is None:
        eos = next((number for number in ends if number in special), None)
    bos = bos if base.bos_id is None else base.bos_id
    templates = dict(settings.templates)
    return replace(
        base,
        bos_id=bos,
        eos_id=eos,
        add_bos=base.add_bos or (settings.add_bos and bos is not None),
        chat_template=templates.pop(DEFAULT, None),
        other_templates=templates,
        end_ids=tuple(dict.fromkeys(number for number in ends if number is not None)),
        rows_that_end=tuple(number for number in settings.end_ids if number >= len(base.raw)),
        disputed_end=bool(settings.end_ids) and eos not in settings.end_ids,
        named=settings.named,
    )


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
    return _with_settings(full, vocab | {token.text: token.id for token in added}, added, settings)


def read_vocab_merges(vocab_path: Path, merges_path: Path, settings: VocabularySettings) -> Vocabulary:
    """Read the vocabulary of GPT-2's vocab.json and merges.txt; a token that no merge produces is treated as special.

    Raises CheckpointError for a broken file.
    """
    vocab = as_vocab(read_json(vocab_path), vocab_path.name)
    lines = [line.rstrip("\r") for line in read_text(merges_path).split("\n")]
    lines = lines[1:] if lines[0].startswith("#version") else lines
    merges = as_merges([line for line in lines if line], merges_path.name)
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    added = [AddedToken(token, number, True) for token, number in vocab.items() if token not in mergeable]
    base = Vocabulary(vocab_path.parent.name or "GPT-2 files", GPT2_PATTERN, raw=(), ranks={}, rank_ids=())
    return _with_settings(byte_level(vocab, merges, added, False, base), vocab, added, settings)
