"""The vocabulary of a tokenizer, and readers for GGUF metadata and .tiktoken; vocabulary_files.py has the others.

Each returns a `Vocabulary`, in which the merge priorities and the model's token ids are two separate numberings:
SmolLM2 uses ids 0..16 for special tokens and has its own order of bytes, so an id does not imply a priority.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from model.errors import CheckpointError, UnsupportedModel, say
from model.strict_json import parse
from model.text.bpe_ranks import ALPHABET, FRESH_COPY, bytes_of, merge_ranks

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
# Digits are split off before the GPT-2 pattern sees the text, so a space before a digit ends its stretch of text: it
# joins no number, and a run of spaces before a digit stays whole.
SMOLLM_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

_MAX_FILE_BYTES = 1 << 28
_MAX_TOKENS = 1 << 22
_MAX_TOKEN_LENGTH = 4096
_MAX_ADDED = 1 << 14  # they are tried one by one at every character


@dataclass(frozen=True)
class AddedToken:
    """A token matched in the text itself, before any merge; `after_nfc`: in the normalised text."""

    text: str
    id: int
    special: bool
    after_nfc: bool = False


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The data of a tokenizer, whichever file it came from.

    `ranks[b]` is the merge priority of the bytes b and `rank_ids[rank]` the model's id for it, -1 for a byte without a
    token in the vocabulary. `raw[id]` are the bytes of a token, None for an id without a token.
    """

    name: str
    pattern: str
    raw: tuple[bytes | None, ...]  # [V]
    ranks: Mapping[bytes, int]
    rank_ids: tuple[int, ...]  # [number of ranks]
    added: tuple[AddedToken, ...] = ()
    nfc: bool = False
    bos_id: int | None = None
    eos_id: int | None = None
    add_bos: bool = False
    chat_template: str | None = None


def byte_level(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    added: Sequence[AddedToken],
    whole: bool,
    base: Vocabulary,
) -> Vocabulary:
    """`base` with raw bytes, ranks and ids of a vocabulary in the byte alphabet.

    `whole`: a complete piece of text is looked up before it is merged (`ignore_merges`). Raises CheckpointError for
    ids other than 0..V-1, clashing tokens and tokens outside the byte alphabet.
    """
    if len(added) > _MAX_ADDED:
        got = f"{len(added)} tokens that no merge makes"
        raise CheckpointError("The vocabulary has too many added tokens.", got, FRESH_COPY)
    texts = {token.text: token.id for token in added}
    for text, number in texts.items():
        if vocab.get(text, number) != number:
            raise CheckpointError("A token has two ids.", f"{text}: {vocab[text]} and {number}", FRESH_COPY)
    merged = {token: number for token, number in vocab.items() if token not in texts}
    by_id = {number: token for token, number in merged.items()} | {number: text for text, number in texts.items()}
    if not merged or len(by_id) != len(merged) + len(texts):
        raise CheckpointError("Two tokens share an id, or there are none.", f"{len(vocab)} tokens", FRESH_COPY)
    if len(by_id) > _MAX_TOKENS or min(by_id) != 0 or max(by_id) != len(by_id) - 1:
        got = f"{len(by_id)} tokens with ids {min(by_id)} to {max(by_id)}"
        raise CheckpointError("The token ids leave gaps or run too high.", got, FRESH_COPY)
    if max(map(len, vocab), default=0) > _MAX_TOKEN_LENGTH:
        raise CheckpointError("A token is absurdly long.", f"{max(map(len, vocab))} characters", FRESH_COPY)
    strange = set().union(*merged) - ALPHABET.keys()
    if strange:
        token = next(token for token in merged if strange & set(token))
        hint = "Only byte-level BPE is read."
        raise CheckpointError("A token is not written in the byte alphabet.", repr(token), hint)
    ranks = merge_ranks(vocab, merges, merged if whole else ())
    rank_ids = [-1] * len(ranks)
    for token, rank in ranks.items():
        rank_ids[rank] = vocab.get(token, -1)
    # An added token's bytes are its text itself, even where the vocabulary lists it as well.
    try:
        raw = tuple(by_id[i].encode() if by_id[i] in texts else bytes_of(by_id[i]) for i in range(len(by_id)))
    except UnicodeEncodeError as error:
        raise CheckpointError("An added token is not valid Unicode.", repr(error.object)[:80], FRESH_COPY) from error
    return replace(
        base,
        raw=raw,
        added=tuple(added),
        rank_ids=tuple(rank_ids),
        ranks={bytes_of(token): rank for token, rank in ranks.items()},
    )


def read_text(path: Path) -> str:
    """The text of a file; CheckpointError for one that is missing, not a plain file, too large or not UTF-8."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise CheckpointError("A vocabulary file is absurdly large.", path.name, FRESH_COPY)
        if not path.is_file():  # a device file has no end
            raise OSError("it is not a file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            say("The vocabulary file {} cannot be read.", path.name), str(error), FRESH_COPY
        ) from error


def read_json(path: Path) -> dict:
    """The JSON object in a file; CheckpointError where it is missing, truncated or not an object."""
    try:
        value = parse(read_text(path))
    except ValueError as error:
        raise CheckpointError(say("{} is not valid JSON.", path.name), str(error)[:160], FRESH_COPY) from error
    if not isinstance(value, dict):
        raise CheckpointError(say("{} must hold a JSON object.", path.name), type(value).__name__, FRESH_COPY)
    return value


def as_vocab(value: object, where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not set(map(type, value.values())) <= {int}:
        raise CheckpointError(say("{} must map tokens to whole numbers.", where), type(value).__name__, FRESH_COPY)
    return value


def as_merges(value: object, where: str) -> list[tuple[str, str]]:
    """Merges as pairs of tokens, from "a b" strings or [a, b] lists."""
    if not isinstance(value, list):
        raise CheckpointError(say("{} must be a list.", where), type(value).__name__, FRESH_COPY)
    merges = [
        tuple(merge.split(" ") if isinstance(merge, str) else merge)
        for merge in value
        if isinstance(merge, (str, list))
    ]
    if len(merges) != len(value) or any(len(m) != 2 or not all(isinstance(part, str) for part in m) for m in merges):
        raise CheckpointError(say("{} must name two tokens each.", where), "", FRESH_COPY)
    return merges


def refuse(what: str, got: object, supported: str) -> UnsupportedModel:
    return UnsupportedModel(say("This vocabulary uses a {} that is not supported.", what), str(got)[:160], supported)


GGUF_PRE = {  # tokenizer.ggml.pre: pattern, pieces looked up whole, NFC, BOS by default
    "gpt-2": (GPT2_PATTERN, False, False, False),
    "gpt2": (GPT2_PATTERN, False, False, False),
    "smollm": (SMOLLM_PATTERN, False, False, False),
    "llama-bpe": (LLAMA3_PATTERN, True, False, True),
    "qwen2": (QWEN_PATTERN, False, True, False),
}


def _gguf_strings(metadata: Mapping[str, object], key: str) -> list[str]:
    values = metadata.get(key)
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise CheckpointError(say("The GGUF file has no list {}.", key), type(values).__name__, FRESH_COPY)
    try:
        strings = [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        raise CheckpointError(say("{} holds text that is not UTF-8.", key), str(error)[:80], FRESH_COPY) from error
    if not set(map(type, strings)) <= {str}:
        raise CheckpointError(say("{} must be a list of strings.", key), "", FRESH_COPY)
    return strings


def _gguf_text(metadata: Mapping[str, object], key: str, default: str | None) -> str | None:
    value = metadata.get(key, default)
    if value is not None and not isinstance(value, str | bytes):
        raise CheckpointError(say("{} must be a text.", key), type(value).__name__, FRESH_COPY)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _gguf_flag(metadata: Mapping[str, object], key: str, default: bool) -> bool:
    value = metadata.get(key, default)
    if not isinstance(value, bool):
        raise CheckpointError(say("{} must be true or false.", key), type(value).__name__, FRESH_COPY)
    return value


def _gguf_types(metadata: Mapping[str, object], count: int) -> list[int]:
    """The type of each token: 1 normal, 3 special, others added. [V]"""
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return [1] * count
    types = types.tolist() if isinstance(types, np.ndarray) else types
    if not isinstance(types, list) or not set(map(type, types)) <= {int}:
        raise CheckpointError("The token types are not whole numbers.", type(types).__name__, FRESH_COPY)
    return types


def read_gguf(metadata: Mapping[str, object]) -> Vocabulary:
    """The vocabulary in GGUF metadata, keys `tokenizer.*`.

    Raises UnsupportedModel for tokenizers other than byte-level BPE or an unknown pre-tokenizer, CheckpointError for
    inconsistent lists.
    """
    kind = _gguf_text(metadata, "tokenizer.ggml.model", None)
    pre = _gguf_text(metadata, "tokenizer.ggml.pre", "gpt-2")
    if kind is None:
        raise CheckpointError("The GGUF file has no tokenizer.", "no tokenizer.ggml.model", FRESH_COPY)
    if kind != "gpt2":
        raise refuse("tokenizer model", kind, "In GGUF, tokenizer.ggml.model gpt2 is supported.")
    if pre not in GGUF_PRE:
        raise refuse("pre-tokenizer", pre, f"Supported in GGUF are {', '.join(GGUF_PRE)}.")
    pattern, whole, nfc, add_bos = GGUF_PRE[pre]
    tokens = _gguf_strings(metadata, "tokenizer.ggml.tokens")
    merges = as_merges(_gguf_strings(metadata, "tokenizer.ggml.merges"), "tokenizer.ggml.merges")
    types = _gguf_types(metadata, len(tokens))
    if len(types) != len(tokens) or len(set(tokens)) != len(tokens):
        got = f"{len(tokens)} tokens, {len(set(tokens))} of them different, {len(types)} types"
        raise CheckpointError("The GGUF vocabulary is inconsistent.", got, FRESH_COPY)
    ends = {}
    for key in ("bos", "eos"):
        ends[key] = number = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None and not (type(number) is int and 0 <= number < len(tokens)):
            raise CheckpointError(say("The {} token is not in the vocabulary.", key), str(number), FRESH_COPY)
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    special = {i for i, kind in enumerate(types) if kind == 3} | {
        number for number in ends.values() if number is not None and tokens[number] not in mergeable
    }
    added = [AddedToken(tokens[i], i, i in special) for i, kind in enumerate(types) if i in special or kind != 1]
    base = Vocabulary(
        name=str(_gguf_text(metadata, "general.name", None) or f"{pre} vocabulary"),
        pattern=pattern,
        raw=(),
        ranks={},
        rank_ids=(),
        nfc=nfc,
        bos_id=ends["bos"],
        eos_id=ends["eos"],
        add_bos=_gguf_flag(metadata, "tokenizer.ggml.add_bos_token", add_bos) and ends["bos"] is not None,
        chat_template=_gguf_text(metadata, "tokenizer.chat_template", None),
    )
    return byte_level({token: i for i, token in enumerate(tokens)}, merges, added, whole, base)


def read_tiktoken(path: Path, pattern: str, special: Mapping[str, int]) -> Vocabulary:
    """The vocabulary in a .tiktoken file: a base64 token and its rank, which is its id, on each line.

    Raises CheckpointError for a broken file or special tokens whose ids are taken.
    """
    ranks: dict[bytes, int] = {}
    count = 0
    for count, line in enumerate(filter(None, read_text(path).splitlines()), start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            what = say("Line {} of {} is not a token and a rank.", count, path.name)
            raise CheckpointError(what, line[:80], FRESH_COPY) from error
    used = set(ranks.values())
    if not ranks or len(ranks) != count or used != set(range(count)) or b"" in ranks:
        raise CheckpointError(
            say("{} repeats a token or a rank, or leaves gaps.", path.name), f"{count} lines", FRESH_COPY
        )
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise CheckpointError(say("{} has no token for some bytes.", path.name), f"{missing[:8]}", FRESH_COPY)
    ids = set(special.values())
    if ids & used or len(ids) != len(special) or any(not 0 <= number < _MAX_TOKENS for number in ids):
        raise CheckpointError("The ids of the special tokens clash.", str(dict(special))[:80], FRESH_COPY)
    raw: list[bytes | None] = [None] * (max(ids | used) + 1)
    for token, rank in ranks.items():
        raw[rank] = token
    for text, number in special.items():
        raw[number] = text.encode()
    added = tuple(AddedToken(text, number, True) for text, number in special.items())
    return Vocabulary(path.stem, pattern, tuple(raw), ranks, tuple(range(count)), added)
