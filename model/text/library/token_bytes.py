"""The bytes of each token of a tokenizer.json: what it adds to a text.

A vocabulary writes its tokens in one of four ways: in GPT-2's byte alphabet (Ġ), with ▁ for a space, with ## for the
continuation of a word (WordPiece), or with </w> for the end of one. A byte as a token is written <0xE2>.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

from model.text.bpe_ranks import ALPHABET, bytes_of

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "▁"  # the sign that stands for a space
_HAN = ("CJK", "HANGUL", "HIRAGANA", "KATAKANA")  # scripts without spaces, by the beginning of a character's name


def kinds(value: object) -> Iterator[str]:
    """Yield the types of all steps in a part of tokenizer.json, nested ones included."""
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield value["type"]
        for each in value.values():
            yield from kinds(each)
    elif isinstance(value, list):
        for each in value:
            yield from kinds(each)


def bytes_of_tokens(content: Mapping, texts: Mapping[int, str], added: Mapping[int, str]) -> tuple[bytes | None, ...]:
    """Return the bytes of every id, None for an id without a token. [V]

    texts, added: id -> text, of the vocabulary and of the added tokens. An added token is its own text.
    """
    model = content["model"]
    steps = {each for key in ("normalizer", "pre_tokenizer", "decoder") for each in kinds(content.get(key))}
    prefix = model.get("continuing_subword_prefix") if model.get("type") == "WordPiece" else None
    suffix = model.get("end_of_word_suffix") or ("</w>" if "BPEDecoder" in steps else "")

    def raw(text: str) -> bytes:
        space = b""
        if suffix and text.endswith(suffix):
            text, space = text[: -len(suffix)], b" "
        if "ByteLevel" in steps:
            return (bytes_of(text) if set(text) <= ALPHABET.keys() else text.encode("utf-8", "replace")) + space
        if prefix:
            text = text.removeprefix(prefix) if text.startswith(prefix) else f"{_gap(text)}{text}"
        elif match := _BYTE.fullmatch(text):
            return bytes([int(match[1], 16)])
        return text.replace(SPACE, " ").encode("utf-8", "replace") + space

    size = 1 + max((*texts, *added), default=-1)
    own = {number: raw(text) for number, text in texts.items()}
    fallback = model.get("byte_fallback")
    own |= {
        number: text.encode("utf-8", "replace")
        for number, text in added.items()
        if not (fallback and _BYTE.fullmatch(text))
    }
    return tuple(own.get(number) for number in range(size))


def _gap(text: str) -> str:
    """Return the space before a token of WordPiece that begins a word; none before punctuation and Chinese
    characters, which are tokens of their own.
    """
    first = text[:1]
    return " " if first.isalnum() and not unicodedata.name(first, "").startswith(_HAN) else ""
