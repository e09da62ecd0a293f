"""The bytes of a vocabulary's tokens, as a rule reads them."""

import functools
import hashlib
import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from model.text.chat import ending
from model.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class ByteVocabulary:
    """The bytes of every token; two are equal if their tokens are."""

    raw: tuple[bytes, ...]  # b"" for an id without a token [V]
    special: frozenset[int]  # tokens that are no text
    ending: frozenset[int]  # tokens that end a text

    @functools.cached_property
    def digest(self) -> bytes:
        """A hash of all fields."""
        parts = (*(b"%d:%b" % (len(each), each) for each in self.raw), repr(sorted(self.special)).encode())
        return hashlib.sha256(b"".join((*parts, repr(sorted(self.ending)).encode()))).digest()

    @functools.cached_property
    def first(self) -> np.ndarray:
        """The code point of each token's first character; -1 for a token that is no text, -2 - byte for a part of a
        character. int32 [V]
        """
        return np.array([_first(each, n in self.special) for n, each in enumerate(self.raw)], np.int32)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ByteVocabulary) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


def _first(raw: bytes, special: bool) -> int:
    if special or not raw:
        return -1
    width = 1 if raw[0] < 0x80 else 2 if raw[0] < 0xE0 else 3 if raw[0] < 0xF0 else 4
    try:
        return ord(raw[:width].decode())
    except UnicodeDecodeError:
        return -2 - raw[0]


SINGLE = ByteVocabulary(tuple(bytes([byte]) for byte in range(256)), frozenset(), frozenset())  # a token for each byte

_KEPT: "WeakKeyDictionary[Tokenizer, ByteVocabulary]" = WeakKeyDictionary()
_MAKING = threading.Lock()


def vocabulary_of(tokenizer: Tokenizer) -> ByteVocabulary:
    """Return the bytes of a tokenizer's tokens, its special tokens, and those that end a text; made once."""
    with _MAKING:
        if tokenizer not in _KEPT:
            special = frozenset(tokenizer.special.values()) | ending(tokenizer)
            _KEPT[tokenizer] = ByteVocabulary(tuple(each or b"" for each in tokenizer.raw), special, ending(tokenizer))
        return _KEPT[tokenizer]
