"""Comparison of vocabularies on one text: the number of tokens in each, and the bytes per token."""

import functools
from dataclasses import dataclass

from model.loading.gguf_file import read_gguf
from model.loading.sources import WEIGHTS, available, smollm2_path
from model.public import one_of, public
from model.records import Tokens
from model.text.public_vocabularies import PUBLIC, public_vocabulary
from model.text.surrogates import joined
from model.text.tokenizer import Tokenizer, from_folder, from_gguf

BYTES, CHARACTERS = "bytes", "characters"  # names of the two tokenizations without a vocabulary
COMPARED = ("tinygpt", "smollm2-135m")  # the built-in models whose vocabularies are compared


@dataclass(frozen=True)
class Cut:
    """A text tokenized with one vocabulary: the bytes and the id of each token, None for a token without an id."""

    name: str
    size: int  # vocabulary size
    raw: tuple[bytes, ...]
    ids: tuple[int | None, ...]


@dataclass(frozen=True)
class Counted:
    """Statistics of a text tokenized with one vocabulary."""

    tokens: int
    bytes_per_token: float
    characters_per_token: float
    single: float  # fraction of the bytes that are single-byte tokens within a multi-byte character


@public()
def cut(name: str, tokenizer: Tokenizer | None, text: str, *, special: bool = False) -> Cut:
    """Tokenize a text. Without a tokenizer, split it into UTF-8 bytes or characters, depending on `name`.

    No BOS is added. If `special`, special tokens in the text are recognized ([MASK] in an encoder's prompt). Raises
    InputError for a text that the tokenizer rejects.
    """
    if tokenizer is not None:
        tokens = tokenizer.encode(text, special=special)
        raw = _with_spaces_of(text, tokens) if is_word_piece(tokenizer) else tokens.raw
        return Cut(name, tokenizer.vocab_size, raw, tuple(tokens.ids.tolist()))
    if name == BYTES:
        raw = text.encode()
        return Cut(name, 256, tuple(bytes([byte]) for byte in raw), tuple(raw))
    return Cut(name, 0x110000 - 0x800, tuple(c.encode() for c in text), tuple(map(ord, text)))


def is_word_piece(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer looks for the longest tokens of a word (WordPiece)."""
    return tokenizer.library is not None and tokenizer.library.content["model"]["type"] == "WordPiece"


def _with_spaces_of(text: str, tokens: Tokens) -> tuple[bytes, ...]:
    """Return the bytes of WordPiece tokens with a space first only where the text has one: not after a bracket."""
    data = joined(text).encode()
    spaced = (data[start:end][:1].isspace() for start, end in tokens.spans.tolist())
    return tuple(raw if space else raw.removeprefix(b" ") for raw, space in zip(tokens.raw, spaced, strict=True))


@public()
def counted(tokens: Cut) -> Counted:
    """Count tokens, bytes and characters per token, and the fraction of the bytes that fell back to single-byte tokens.

    For an empty text all values are 0. Bytes are those of the tokens in UTF-8; a vocabulary with NFC normalization may
    have fewer than the text.
    """
    text, n = b"".join(tokens.raw), len(tokens.raw)
    if not n:
        return Counted(0, 0.0, 0.0, 0.0)
    single = sum(len(raw) == 1 and raw[0] >= 0x80 for raw in tokens.raw)
    return Counted(n, len(text) / n, len(text.decode("utf-8", "replace")) / n, single / len(text))


@public(name=one_of((*COMPARED, *PUBLIC)))
@functools.lru_cache(maxsize=4)
def built_in(name: str) -> Tokenizer:
    """Return the tokenizer of a built-in model on this computer, or a public vocabulary: "gpt2", "cl100k_base" or
    "o200k_base". No weights are read, and nothing is downloaded.
    """
    if name in PUBLIC:
        return public_vocabulary(name)
    if name == "tinygpt":
        return from_folder(WEIGHTS / "tinygpt")
    return from_gguf(read_gguf(smollm2_path(offline=True)).metadata)


def local_vocabularies() -> tuple[str, ...]:
    """Return the ids of the compared built-in models with a vocabulary on this computer."""
    return tuple(name for name in available() if name in COMPARED)
