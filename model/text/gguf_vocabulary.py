"""The vocabulary in the metadata of a GGUF file."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from model.errors import CheckpointError, UnsupportedModel, say
from model.text.bpe_ranks import ALPHABET, FRESH_COPY
from model.text.library.content import library_vocabulary
from model.text.library.gguf import ENCODERS, KINDS, STEPS, byte_level_content, pieces_content, with_ends
from model.text.vocabulary import (
    GPT2_PATTERN,
    LLAMA3_PATTERN,
    QWEN_PATTERN,
    SMOLLM_PATTERN,
    AddedToken,
    Vocabulary,
    as_merges,
    byte_level,
    refuse,
)
from model.text.vocabulary_settings import VocabularySettings


@dataclass(frozen=True)
class Split:
    """The preparation of text before merging, by the value of tokenizer.ggml.pre.

    `whole`: complete pieces of text are looked up before they are merged. `nfc`: text is normalized to NFC first, as
    in the model's own tokenizer. `add_bos`: BOS comes first unless tokenizer.ggml.add_bos_token decides otherwise.
    """

    pattern: str
    whole: bool = False
    nfc: bool = False
    add_bos: bool = False


_LLAMA3, _GPT2 = Split(LLAMA3_PATTERN, whole=True, add_bos=True), Split(GPT2_PATTERN)
_SMOLLM, _QWEN = Split(SMOLLM_PATTERN), Split(QWEN_PATTERN, nfc=True)
_HEAD, _TAIL = r"[^\r\n\p{L}\p{N}]?", r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TEKKEN = rf"{_HEAD}{_UPPER}*{_LOWER}+|{_HEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_TAIL}"
_GPT4O = rf"{_HEAD}{_UPPER}*{_LOWER}+{_SUFFIX}?|{_HEAD}{_UPPER}+{_LOWER}*{_SUFFIX}?|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN35 = rf"{_SUFFIX}|{_HEAD}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BAILING = rf"'(?i:[sdmt]|ll|ve|re)|{_HEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
# Many spaces are split as powers of 2.
_SPACES = "|".join(rf"\s{{{1 << n}}}(?!\S)" for n in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}"
_JAIS2 = LLAMA3_PATTERN.removesuffix(r"\s+(?!\S)|\s+") + _SPACES
_SEED = rf"{_SUFFIX}|{_HEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
# The names that llama.cpp (src/llama-vocab.cpp) maps to these expressions. llama.cpp has no NFC; the names that stand
# for Qwen's expression get it from Qwen's tokenizer.
SPLITS: dict[str, Split] = {
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), Split(LLAMA3_PATTERN)),
    **dict.fromkeys(
        (
            *("gpt-2", "gpt2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0"),
            *("mellum", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"),
        ),
        _GPT2,
    ),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
        _SMOLLM,
    ),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"),
        _QWEN,
    ),
    # With classes of capital and small letters, as in tokenizer.json, where llama.cpp has look-ahead of its own.
    "tekken": Split(_TEKKEN, whole=True, add_bos=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), Split(_GPT4O)),
    "qwen35": Split(_QWEN35, nfc=True),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), Split(_BAILING)),
    "seed-coder": Split(_SEED),
    "jais-2": Split(_JAIS2),
}
# part of the metadata key between "tokenizer.ggml." and "_token_id" -> the token's name in templates
_NAMES = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "seperator": "sep_token",  # the spelling used in the files
    "padding": "pad_token",
    "mask": "mask_token",
}
# Ids of llama.cpp where a file has none, by tokenizer.ggml.model.
_DEFAULT_IDS: dict[str, dict[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "bert": {"bos": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
}
_MERGES = "tokenizer.ggml.merges"
_ENDS = ("eos", "eot", "eom")  # a text ends at any of these tokens
_TEMPLATE = "tokenizer.chat_template"


def read_gguf(metadata: Mapping[str, object]) -> Vocabulary:
    """Read the vocabulary from GGUF metadata, keys `tokenizer.*`.

    A text ends at tokenizer.ggml.eos_token_id, eot_token_id and eom_token_id. Raises UnsupportedModel for a kind of
    tokenizer or a pre-tokenizer that is unknown or not stated, CheckpointError for inconsistent lists.
    """
    kind, pre = _kind(metadata)
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    types = _types(metadata, len(tokens))
    if len(types) != len(tokens) or len(set(tokens)) != len(tokens):
        got = f"{len(tokens)} tokens, {len(set(tokens))} of them different, {len(types)} types"
        raise CheckpointError("The GGUF vocabulary is inconsistent.", got, FRESH_COPY)
    named = {key: _token(metadata, key, len(tokens)) for key in {**_NAMES, **dict.fromkeys(_ENDS)}}
    if kind != "gpt2" or pre in STEPS:
        return _by_library(metadata, kind, tokens, types, named)
    split = SPLITS[str(pre)]
    merges = as_merges(_strings(metadata, _MERGES), _MERGES)
    ends = [number for key in _ENDS if (number := named[key]) is not None]
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    special = {i for i, kind in enumerate(types) if kind == 3} | {
        number for number in (named["bos"], *ends) if number is not None and tokens[number] not in mergeable
    }
    added = [AddedToken(tokens[i], i, i in special) for i, kind in enumerate(types) if i in special or kind != 1]
    default, others = _templates(metadata)
    base = Vocabulary(
        name=_name(metadata),
        pattern=split.pattern,
        raw=(),
        ranks={},
        rank_ids=(),
        nfc=split.nfc,
        bos_id=named["bos"],
        eos_id=named["eos"],
        add_bos=_flag(metadata, "tokenizer.ggml.add_bos_token", split.add_bos) and named["bos"] is not None,
        chat_template=default,
        other_templates=others,
        end_ids=tuple(dict.fromkeys(ends)),
        named={name: tokens[number] for key, name in _NAMES.items() if (number := named[key]) is not None},
    )
    return byte_level({token: i for i, token in enumerate(tokens)}, merges, added, split.whole, base)


def _by_library(
    metadata: Mapping[str, object], kind: str, tokens: list[str], types: list[int], named: dict[str, int | None]
) -> Vocabulary:
    """Return a vocabulary that the `tokenizers` library runs: pieces with scores, WordPiece, or several splits."""
    named = {**_DEFAULT_IDS.get(kind, {}), **{key: number for key, number in named.items() if number is not None}}
    named = {key: number for key, number in named.items() if number is not None and number < len(tokens)}
    ends = [named[key] for key in _ENDS if key in named]
    if kind == "gpt2":
        merges = as_merges(_strings(metadata, _MERGES), _MERGES)
        content = byte_level_content(tokens, merges, _with_special(types, named, tokens, merges), _pre(metadata))
    else:
        charsmap = metadata.get("tokenizer.ggml.precompiled_charsmap", b"")
        content = pieces_content(
            kind,
            tokens,
            _scores(metadata, len(tokens)),
            _with_special(types, named, tokens, ()),
            named.get("unknown"),
            space_first=_flag(metadata, "tokenizer.ggml.add_space_prefix", kind != "gemma4"),
            one_space=_flag(metadata, "tokenizer.ggml.remove_extra_whitespaces", kind == "t5"),
            charsmap=base64.b64encode(np.asarray(charsmap).tobytes()).decode() if len(charsmap) else "",
            merges=as_merges(_strings(metadata, _MERGES), _MERGES) if kind == "gemma4" else None,
        )
    encoder = kind == "gpt2" and _pre(metadata) in ENCODERS
    first = _flag(metadata, "tokenizer.ggml.add_bos_token", kind in ("llama", "bert", "gemma4") or encoder)
    last = _flag(metadata, "tokenizer.ggml.add_eos_token", kind == "t5" or encoder)
    end = named.get("seperator") if kind == "bert" else named.get("eos") if last else None
    default, others = _templates(metadata)
    settings = VocabularySettings(
        named={name: tokens[named[key]] for key, name in _NAMES.items() if key in named},
        end_ids=tuple(dict.fromkeys(ends)),
        add_bos=first and "bos" in named,
        templates=others | ({} if default is None else {"default": default}),
    )
    content = with_ends(content, tokens, named.get("bos") if first else None, end)
    return library_vocabulary(content, _name(metadata), settings)


def _with_special(
    types: list[int], named: Mapping[str, int], tokens: list[str], merges: Sequence[tuple[str, str]]
) -> list[int]:
    """Return the types with BOS and end tokens as special ones, unless merges make them."""
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    special = {named[key] for key in ("bos", *_ENDS) if key in named and tokens[named[key]] not in mergeable}
    return [3 if number in special and kind == 1 else kind for number, kind in enumerate(types)]


def _name(metadata: Mapping[str, object]) -> str:
    return str(_text(metadata, "general.name", None) or f"{_text(metadata, 'tokenizer.ggml.pre', '')} vocabulary")


def _pre(metadata: Mapping[str, object]) -> str:
    return str(_text(metadata, "tokenizer.ggml.pre", None))


def _scores(metadata: Mapping[str, object], count: int) -> list[float] | None:
    """Return the score of each piece; None if the file has none."""
    scores = metadata.get("tokenizer.ggml.scores")
    if scores is None:
        return None
    scores = scores.tolist() if isinstance(scores, np.ndarray) else scores
    if not isinstance(scores, list) or len(scores) != count or not set(map(type, scores)) <= {int, float}:
        raise CheckpointError("Each token needs a score that is a finite number.", f"{count} tokens", FRESH_COPY)
    if not all(map(math.isfinite, scores)):
        raise CheckpointError("Each token needs a score that is a finite number.", "not finite", FRESH_COPY)
    return scores


def _kind(metadata: Mapping[str, object]) -> tuple[str, str | None]:
    """Return tokenizer.ggml.model and .pre. Raises UnsupportedModel if one that is needed is unknown."""
    kind, pre = (_text(metadata, f"tokenizer.ggml.{key}", None) for key in ("model", "pre"))
    if kind is None:
        raise CheckpointError("The GGUF file has no tokenizer.", "no tokenizer.ggml.model", FRESH_COPY)
    if kind in KINDS:
        return kind, pre
    if kind != "gpt2":
        hint = f"In GGUF, tokenizer.ggml.model gpt2, {', '.join(KINDS)} are supported."
        raise refuse("tokenizer model", kind, hint)
    if pre is None:  # files from before May 2024; models of the same architecture split text in different ways
        raise UnsupportedModel(
            "The GGUF file does not say how to split text before the merges.",
            "no tokenizer.ggml.pre",
            "Convert the model again with a current llama.cpp, or add the key with gguf-new-metadata --pre-tokenizer.",
        )
    if pre not in SPLITS and pre not in STEPS:
        raise refuse("pre-tokenizer", pre, f"Supported in GGUF are {', '.join((*SPLITS, *STEPS))}.")
    return kind, pre


def _templates(metadata: Mapping[str, object]) -> tuple[str | None, dict[str, str]]:
    """Return the default chat template and the others by name: tokenizer.chat_template and .chat_template.NAME."""
    others = {
        key.removeprefix(f"{_TEMPLATE}."): text
        for key in metadata
        if key.startswith(f"{_TEMPLATE}.") and (text := _text(metadata, key, None)) is not None
    }
    default = _text(metadata, _TEMPLATE, None)
    return others.pop("default", None) if default is None else default, others


def _token(metadata: Mapping[str, object], key: str, count: int) -> int | None:
    """Return the id of a special token, or None if the file has none; raise CheckpointError for an invalid id."""
    number = metadata.get(f"tokenizer.ggml.{key}_token_id")
    if number is not None and not (type(number) is int and 0 <= number < count):
        if key not in ("bos", *_ENDS):  # these ids are not used
            return None
        raise CheckpointError(say("The {} token is not in the vocabulary.", key), str(number), FRESH_COPY)
    return number


def _strings(metadata: Mapping[str, object], key: str) -> list[str]:
    values = metadata.get(key)
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise CheckpointError(say("The GGUF file has no list {}.", key), type(values).__name__, FRESH_COPY)
    try:
        strings = [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        raise CheckpointError(say("{} contains text that is not UTF-8.", key), str(error)[:80], FRESH_COPY) from error
    if not set(map(type, strings)) <= {str}:
        raise CheckpointError(say("{} must be a list of strings.", key), "", FRESH_COPY)
    return strings


def _text(metadata: Mapping[str, object], key: str, default: str | None) -> str | None:
    value = metadata.get(key, default)
    if value is not None and not isinstance(value, str | bytes):
        raise CheckpointError(say("{} must be a text.", key), type(value).__name__, FRESH_COPY)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _flag(metadata: Mapping[str, object], key: str, default: bool) -> bool:
    value = metadata.get(key, default)
    if not isinstance(value, bool):
        raise CheckpointError(say("{} must be true or false.", key), type(value).__name__, FRESH_COPY)
    return value


def _types(metadata: Mapping[str, object], count: int) -> list[int]:
    """Return the type of each token: 1 normal, 3 special, others added. [V]"""
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return [1] * count
    types = types.tolist() if isinstance(types, np.ndarray) else types
    if not isinstance(types, list) or not set(map(type, types)) <= {int}:
        raise CheckpointError("The token types are not whole numbers.", type(types).__name__, FRESH_COPY)
    return types
