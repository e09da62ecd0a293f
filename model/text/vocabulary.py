"""The vocabulary of a tokenizer and a reader for .tiktoken files; the other readers are in vocabulary_files.py and
gguf_vocabulary.py.

Each returns a `Vocabulary`, in which merge priorities and token ids are two separate numberings: SmolLM2 uses ids
0..16 for special tokens and has its own order of bytes, so an id does not imply a priority.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.errors import CheckpointError, Message, UnsupportedModel, say
from model.strict_json import parse
from model.text.bpe_ranks import ALPHABET, FRESH_COPY, bytes_of, merge_ranks

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
# Digits are split off before the GPT-2 pattern sees the text, so a space before a digit ends its stretch of text: it is
# not joined to a number, and a run of spaces before a digit remains whole.
SMOLLM_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

_MAX_FILE_BYTES = 1 << 28
_MAX_TOKENS = 1 << 22
_MAX_TOKEN_LENGTH = 4096
_MAX_ADDED = 1 << 14  # maximum number of added tokens, which are tried one by one at every character


@dataclass(frozen=True)
class AddedToken:
    """A token matched in the text itself, before any merge; `after_nfc` means in the normalized text."""

    text: str
    id: int
    special: bool
    after_nfc: bool = False


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The data of a tokenizer, independent of its file format.

    `ranks[b]` is the merge priority of the bytes b, and `rank_ids[rank]` is the model's id for it, -1 for a byte
    without a token in the vocabulary. `raw[id]` are the bytes of a token, None for an id without a token.
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
    other_templates: Mapping[str, str] = field(default_factory=dict)  # chat templates by name
    end_ids: tuple[int, ...] = ()  # all end tokens in the model's files
    rows_that_end: tuple[int, ...] = ()  # ids of end tokens beyond the vocabulary: rows of the model without a token
    disputed_end: bool = False  # True if the model's generation ends at tokens other than `eos_id`
    named: Mapping[str, str | list[str]] = field(default_factory=dict)  # special tokens by their names in templates
    begin: tuple[int, ...] = ()  # ids put before a text by default, if they are not just `bos_id`
    finish: tuple[int, ...] = ()  # ids put after a text by default
    library: str = ""  # tokenizer.json that the tokenizers library runs; `pattern` and `ranks` are then empty


def byte_level(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    added: Sequence[AddedToken],
    ignore_merges: bool,
    base: Vocabulary,
) -> Vocabulary:
    """Fill in `base` with raw bytes, ranks and ids of a vocabulary in the byte alphabet.

    `ignore_merges`: a complete piece of text is looked up before it is merged. Raises CheckpointError for ids other
    than 0..V-1 and clashing tokens, UnsupportedModel for tokens outside the byte alphabet.
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
        raise CheckpointError("Two tokens share an id, or the vocabulary is empty.", f"{len(vocab)} tokens", FRESH_COPY)
    if len(by_id) > _MAX_TOKENS or min(by_id) != 0 or max(by_id) != len(by_id) - 1:
        got = f"{len(by_id)} tokens with ids {min(by_id)} to {max(by_id)}"
        raise CheckpointError("The token ids have gaps or are too large.", got, FRESH_COPY)
    if max(map(len, vocab), default=0) > _MAX_TOKEN_LENGTH:
        raise CheckpointError("A token is implausibly long.", f"{max(map(len, vocab))} characters", FRESH_COPY)
    strange = set().union(*merged) - ALPHABET.keys()
    if strange:
        token = next(token for token in merged if strange & set(token))
        hint = "Only byte-level BPE is supported."
        raise UnsupportedModel("A token is not written in the byte alphabet.", repr(token), hint)
    ranks = merge_ranks(vocab, merges, merged if ignore_merges else ())
    rank_ids = [-1] * len(ranks)
    for token, rank in ranks.items():
        rank_ids[rank] = vocab.get(token, -1)
    # An added token's bytes are its text itself, even if the vocabulary lists it as well.
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


def with_rows(vocabulary: Vocabulary, rows: int) -> Vocabulary:
    """Add a token for every row that ends a text, for a model with the given number of rows.

    A model may have more rows than its vocabulary has tokens, and its files may name one of them as an end token. All
    rows up to the last of these become special tokens such as "<|row 388|>", because the model may generate them.
    """
    ends = [number for number in vocabulary.rows_that_end if len(vocabulary.raw) <= number < rows]
    new = range(len(vocabulary.raw), max(ends, default=-1) + 1)
    if not new or len(new) > _MAX_ADDED - len(vocabulary.added):
        return vocabulary
    added = tuple(AddedToken(f"<|row {number}|>", number, special=True) for number in new)
    return replace(
        vocabulary,
        raw=(*vocabulary.raw, *(token.text.encode() for token in added)),
        added=(*vocabulary.added, *added),
        end_ids=(*vocabulary.end_ids, *ends),
        rows_that_end=(),
    )


def again(name: str) -> Message:
    """Return the hint for a broken file of a model's folder."""
    return say("Download {} again from the model's publisher.", name)


def read_text(path: Path) -> str:
    """Read the text of a file. Raises CheckpointError if it is missing, not a plain file, too large or not UTF-8."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise CheckpointError("A vocabulary file is implausibly large.", path.name, again(path.name))
        if not path.is_file():  # a device file never ends
            raise OSError("it is not a file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(say("The file {} cannot be read.", path.name), str(error), again(path.name)) from error


def read_json(path: Path) -> dict:
    """Read the JSON object in a file. Raises CheckpointError if it is missing, truncated or not an object."""
    try:
        value = parse(read_text(path))
    except ValueError as error:
        raise CheckpointError(say("{} is not valid JSON.", path.name), str(error)[:160], again(path.name)) from error
    if not isinstance(value, dict):
        raise CheckpointError(say("{} must hold a JSON object.", path.name), type(value).__name__, again(path.name))
    return value


def as_vocab(value: object, where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not set(map(type, value.values())) <= {int}:
        raise CheckpointError(say("{} must map tokens to whole numbers.", where), type(value).__name__, FRESH_COPY)
    return value


def as_merges(value: object, where: str) -> list[tuple[str, str]]:
    """Convert merges, "a b" strings or [a, b] lists, to pairs of tokens."""
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


def read_tiktoken(path: Path, pattern: str, special: Mapping[str, int]) -> Vocabulary:
    """Read the vocabulary of a .tiktoken file: a base64 token and its rank, which is its id, on each line.

    Raises CheckpointError if the file is broken or the ids of special tokens are taken.
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
