"""Tokens as a tokenizer has them, with its marks for spaces and bytes, as readable text."""

import functools
import re
from collections.abc import Sequence

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(
    r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS|/?INST)\]|<\|[^|<>]+\|>|<｜[^<>]+｜>|</?s>"
    r"|<(?:bos|eos|pad|unk|mask|cls|sep|(?:start|end)_of_turn|extra_id_\d+)>"
)


def readable(tokens: Sequence[str | bytes], *, patches: bool = False) -> tuple[str, ...]:
    """Return the text that each token stands for; " cat" for "Ġcat", "▁cat" and a "cat" of WordPiece.

    The marks of the whole list decide, in this order:

    1. Bytes, as tiktoken has them: decoded.
    2. Byte-level BPE (GPT-2, Llama 3, Qwen): some token has a letter that stands for a byte, such as Ġ for a space and
       Ċ for a line break, no token has a space, and all bytes together are UTF-8; or some token begins with Ġ or Ċ.
    3. SentencePiece (Llama, T5): some token has ▁, which is a space; <0x0A> is a byte.
    4. WordPiece (BERT): some token begins with ##, which continues a word, or is [CLS]; all others begin with a space.
       Not if some token has a space already. [CLS] alone does not decide among `patches` of an image.
    5. An end of word </w> (CLIP), or @@ before the rest of a word: the next word begins with a space.
    6. Otherwise tokens are unchanged.

    Bytes that are not a character on their own are written <0xE4>. Special tokens stay as they are,
    and so do texts that are readable already.
    """
    texts = tuple(_of_bytes(each) if isinstance(each, bytes) else _valid(each) for each in tokens)
    if any(isinstance(each, bytes) for each in tokens):
        return texts
    if _is_byte_level(texts):
        return tuple(_of_bytes(_bytes(each)) if _in_alphabet(each) else each for each in texts)
    if any("▁" in each for each in texts):
        return tuple(_sentence_piece(each) for each in texts)
    spaced = any(" " in each for each in texts)
    word_piece = any(each.startswith("##") and len(each) > 2 for each in texts) or ("[CLS]" in texts and not patches)
    if word_piece and not spaced:
        return tuple(_word_piece(each, at) for at, each in enumerate(texts))
    if any(each.endswith("</w>") for each in texts):
        return _spaced(texts, [each.endswith("</w>") for each in texts], "</w>")
    if any(each.endswith("@@") and len(each) > 2 for each in texts):
        return _spaced(texts, [not each.endswith("@@") for each in texts], "@@")
    return texts


def is_special(text: str) -> bool:
    """Return whether a token is one that a tokenizer adds, such as [CLS], <s> or <|endoftext|>."""
    return _SPECIAL.fullmatch(text) is not None


def _valid(text: str) -> str:
    """Replace unpaired surrogates, which no file and no page can hold."""
    return text.encode("utf-8", "replace").decode()


@functools.cache
def _alphabet() -> dict[str, int]:
    """Return the letters of byte-level BPE with their bytes (Radford et al. 2019): printable ones are themselves."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(0x100 + n): byte for n, byte in enumerate(rest)}


def _in_alphabet(text: str) -> bool:
    letters = _alphabet()
    return all(letter in letters for letter in text)


def _bytes(text: str) -> bytes:
    letters = _alphabet()
    return bytes(letters[letter] for letter in text)


def _is_byte_level(texts: Sequence[str]) -> bool:
    if any(each[:1] in "ĠĊ" for each in texts if each):
        return True
    coded = [each for each in texts if _in_alphabet(each)]
    if not any("\u0100" <= letter <= "\u0143" for each in coded for letter in each):
        return False
    if any(" " in each for each in texts):
        return False
    whole = b"".join(map(_bytes, coded))
    try:
        whole.lstrip(bytes(range(0x80, 0xC0))).decode()  # the list may begin within a character
    except UnicodeDecodeError as error:
        return error.end == len(whole) and error.reason == "unexpected end of data"
    return True


def _of_bytes(raw: bytes) -> str:
    """Decode bytes; those that are not a character on their own are written as <0xE4>."""
    return "".join(
        f"<0x{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in raw.decode("utf-8", "surrogateescape")
    )


def _sentence_piece(text: str) -> str:
    if match := _BYTE.fullmatch(text):
        return _of_bytes(bytes([int(match[1], 16)]))
    return text.replace("▁", " ")


def _word_piece(text: str, at: int) -> str:
    if text.startswith("##") and len(text) > 2:
        return text[2:]
    return text if at == 0 or is_special(text) else f" {text}"


def _spaced(texts: Sequence[str], ends: Sequence[bool], mark: str) -> tuple[str, ...]:
    """Remove a mark at the ends of tokens, and begin each word after the first with a space."""
    begins = [False, *ends[:-1]]
    return tuple(
        (" " if begin and not is_special(text) else "") + (text if is_special(text) else text.removesuffix(mark))
        for text, begin in zip(texts, begins, strict=True)
    )
