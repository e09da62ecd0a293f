"""Groups of tokens that form one character together, for vocabularies that split characters into bytes."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tokenizers import Regex, pre_tokenizers

# Well-formed multi-byte sequences: table 3-7 of the Unicode standard, version 16, section 3.9.
_SEVERAL = (
    rb"[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    rb"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2}"
)
_CHARACTER = re.compile(_SEVERAL)
_STRETCH = re.compile(rb"(?:[\x00-\x7F]|" + _SEVERAL + rb")+")  # stretch of valid UTF-8
_CLUSTERS = pre_tokenizers.Split(Regex(r"\X"), "isolated")


@dataclass(frozen=True)
class CharacterGroup:
    """Neighboring tokens, from `start` up to but not including `end`, that form `text` together."""

    start: int
    end: int
    text: str  # U+FFFD for bytes that do not belong to a character


@dataclass(frozen=True)
class CharacterPart:
    """The bytes of a character that a token contains: from byte `first` to byte `last`, counted from 1, of
    `of` bytes.
    """

    text: str
    first: int
    last: int
    of: int


def character_groups(raw: Sequence[bytes], *, clusters: bool = False) -> tuple[CharacterGroup, ...]:
    """Partition the tokens into the smallest groups such that no character crosses a group boundary.

    `raw` holds the bytes of each token [T]. If `clusters`, a character is an extended grapheme cluster, as perceived
    by readers: a letter with its marks, a family of emoji (Unicode Standard Annex 29), except a line break of two
    characters. Otherwise it is a code point. The concatenated texts are the text of all tokens; if that is valid
    UTF-8, so is each group. If the tokens end within a character, its bytes are in groups of their own.
    """
    if not raw:
        return ()
    joined = b"".join(raw)
    ends = list(accumulate(map(len, raw)))
    inside: set[int] = set()  # positions between two bytes of one character
    if not joined.isascii():
        for start, end in clusters_of(joined) if clusters else (match.span() for match in _CHARACTER.finditer(joined)):
            inside.update(range(start + 1, end))
    cuts = [0, *(at for at, end in enumerate(ends[:-1], 1) if end not in inside), len(raw)]
    return tuple(
        CharacterGroup(start, end, b"".join(raw[start:end]).decode("utf-8", "replace")) for start, end in pairwise(cuts)
    )


def character_parts(raw: Sequence[bytes]) -> dict[int, tuple[CharacterPart, ...]]:
    """Map each token [T] that contains only some bytes of a character to the character and the numbers of those bytes.

    A token has at most two entries: the end of one character and the beginning of another. Bytes outside any complete
    character are omitted, for example those of an unfinished last character.
    """
    edges = [0, *accumulate(map(len, raw))]
    parts: dict[int, tuple[CharacterPart, ...]] = {}
    for match in _CHARACTER.finditer(b"".join(raw)):
        start, end = match.span()
        # the tokens of the character's first and last byte
        first, last = bisect_right(edges, start) - 1, bisect_left(edges, end) - 1
        for at in range(first, last + 1) if last > first else ():
            low, high = max(edges[at], start), min(edges[at + 1], end)
            if low < high:
                part = CharacterPart(match[0].decode(), low - start + 1, high - start, end - start)
                parts[at] = (*parts.get(at, ()), part)
    return parts


def clusters_of(joined: bytes) -> list[tuple[int, int]]:
    """Return the byte spans of all multi-byte clusters in the valid stretches of a text."""
    spans = []
    for stretch in _STRETCH.finditer(joined):
        at = stretch.start()
        for cluster, _ in _CLUSTERS.pre_tokenize_str(stretch[0].decode()):
            size = len(cluster.encode())
            if size > 1 and cluster != "\r\n":
                spans.append((at, at + size))
            at += size
    return spans
