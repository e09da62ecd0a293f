"""Byte-pair encoding merge by merge: the pieces of a text, and the merges of each piece in order.

For tokenizers without merges, the steps are those of model/text/library/steps.py.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tokenizers import Regex, pre_tokenizers

from model.errors import InputError, say
from model.public import public
from model.text.library.steps import Lattice, Word, words_of
from model.text.surrogates import joined
from model.text.tokenizer import Tokenizer

# maximum length of a text for replaying merges: the cost of a piece grows with the square of its bytes
MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Merge:
    """A merge of two neighboring parts into one: the index of the left part before the merge, and the rank of the
    merge.
    """

    at: int
    rank: int


@dataclass(frozen=True)
class Piece:
    """A piece of text that no merge crosses, and the tokenization of its bytes.

    `added`: the piece is an added token, matched before any merge. `whole`: the vocabulary has the complete piece as a
    token, although merging its bytes would not reach it. `ids` are the resulting token ids.

    With the `tokenizers` library: `start` are the parts before the first merge, if they are not single bytes, and
    `pairs` the mergeable pairs before each merge; `lattice` holds the steps of a tokenizer without merges.
    """

    text: str
    raw: bytes
    merges: tuple[Merge, ...]
    ids: tuple[int, ...]
    added: bool = False
    whole: bool = False
    start: tuple[bytes, ...] = ()
    pairs: tuple[tuple[tuple[int, int], ...], ...] = ()
    lattice: Lattice | None = None

    def parts(self, step: int) -> list[bytes]:
        """Return the parts after `step` merges; 0 gives the single bytes, or `start`."""
        parts = [*self.start] or [bytes([byte]) for byte in self.raw]
        for merge in self.merges[:step]:
            parts[merge.at : merge.at + 2] = [parts[merge.at] + parts[merge.at + 1]]
        return parts


def candidates(ranks: Mapping[bytes, int], parts: list[bytes]) -> list[tuple[int, int]]:
    """List all neighboring parts that can be merged as (rank, index of the left part), in increasing order of rank."""
    joined = (ranks.get(left + right) for left, right in pairwise(parts))
    return sorted((rank, at) for at, rank in enumerate(joined) if rank is not None)


def merges_of(ranks: Mapping[bytes, int], raw: bytes) -> tuple[Merge, ...]:
    """Compute the merges of a piece in order: each joins the two neighbors whose joined bytes have the lowest rank.

    Ties go to the leftmost pair (Sennrich et al. 2016, algorithm 1, as implemented by tiktoken). Each merge removes
    one part, so there are fewer than len(raw) merges.
    """
    parts, merges = [bytes([byte]) for byte in raw], []
    while len(parts) > 1:
        joined = [ranks.get(left + right) for left, right in pairwise(parts)]
        rank = min((each for each in joined if each is not None), default=None)
        if rank is None:
            break
        at = joined.index(rank)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        merges.append(Merge(at, rank))
    return tuple(merges)


@public()
def replay(tokenizer: Tokenizer, text: str, *, special: bool = False) -> tuple[Piece, ...]:
    """Tokenize a text merge by merge with the tokenizer's vocabulary, and return its pieces.

    The concatenated ids of the pieces equal `tokenizer.encode_ids(text, special=special)`: if `special`, special tokens
    in the text are pieces of their own. Text that the vocabulary normalizes (NFC) is
    returned in its normalized form. Raises InputError if a text is too long or the tokenizer rejects it.
    """
    if len(text) > MOST_CHARACTERS:
        hint = say("Merges are shown for at most {} characters.", MOST_CHARACTERS)
        raise InputError("The text is too long to replay its merges.", f"{len(text)} characters", hint)
    expected = tokenizer.encode_ids(text, special=special)
    pieces: list[Piece] = []
    for part, fixed in _at(tokenizer.special if special else {}, joined(text)):
        if fixed is not None:
            pieces.append(Piece(part, part.encode(), (), (fixed,), added=True))
        elif tokenizer.library is not None:
            pieces += [_of_word(tokenizer, word) for word in words_of(tokenizer.library, part)]
        else:
            pieces += _of_text(tokenizer, part)
    if [number for piece in pieces for number in piece.ids] != expected:
        # Two regex engines evaluate the pattern, and their Unicode versions may differ.
        raise InputError("The pieces of this text cannot be determined.", text[:40], "Try another text.")
    return tuple(pieces)


def _of_text(tokenizer: Tokenizer, text: str) -> list[Piece]:
    """Return the pieces of a text without special tokens, for a vocabulary that the library does not run."""
    pieces: list[Piece] = []
    for part, fixed in _stretches(tokenizer, text):
        if fixed is not None:
            pieces.append(Piece(part, part.encode(), (), (fixed,), added=True))
        else:
            pieces += [_piece(tokenizer, each) for each in split(tokenizer, part)]
    return pieces


def _of_word(tokenizer: Tokenizer, word: Word) -> Piece:
    start = tuple(tokenizer.tokens([number]).raw[0] for number in word.start)
    merges = tuple(Merge(at, rank) for at, rank in word.merges)
    raw = b"".join(start) or tokenizer.decode_bytes(word.ids)
    text = word.text if word.added or word.bare else raw.decode("utf-8", "replace")
    return Piece(text, raw, merges, word.ids, word.added, word.whole, start, word.pairs, word.lattice)


def split(tokenizer: Tokenizer, text: str) -> list[str]:
    """Split a text by the vocabulary's pattern, before any merge; the concatenated pieces are the text."""
    if not text:
        return []
    pattern = pre_tokenizers.Split(Regex(tokenizer.vocabulary.pattern), "isolated")
    return [piece for piece, _ in pattern.pre_tokenize_str(text)]


def _stretches(tokenizer: Tokenizer, text: str) -> list[tuple[str, int | None]]:
    """Split a text into stretches of plain text, normalized if the vocabulary requires it, and added tokens with their
    ids.
    """
    stretches: list[tuple[str, int | None]] = []
    for part, fixed in _cut(tokenizer, text, False):
        plain = unicodedata.normalize("NFC", part) if tokenizer.vocabulary.nfc else part
        stretches += [(part, fixed)] if fixed is not None else _cut(tokenizer, plain, True)
    return [each for each in stretches if each[0]]


def _cut(tokenizer: Tokenizer, text: str, after_nfc: bool) -> list[tuple[str, int | None]]:
    """Split a text at added tokens, longest first: (an added token, its id) or (text between them, None). Special
    tokens remain text.
    """
    vocabulary = tokenizer.vocabulary
    ids = {
        unicodedata.normalize("NFC", token.text) if after_nfc and vocabulary.nfc else token.text: token.id
        for token in vocabulary.added
        if token.after_nfc == after_nfc and not token.special
    }
    return _at(ids, text)


def _at(ids: Mapping[str, int], text: str) -> list[tuple[str, int | None]]:
    """Split a text at tokens, longest first: (a token, its id) or (text between them, None)."""
    if not ids:
        return [(text, None)]
    pattern = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
    return [(part, ids.get(part) if at % 2 else None) for at, part in enumerate(re.split(f"({pattern})", text))]


def _piece(tokenizer: Tokenizer, text: str) -> Piece:
    raw, vocabulary = text.encode(), tokenizer.vocabulary
    ranks, ids = vocabulary.ranks, vocabulary.rank_ids
    piece = Piece(text, raw, merges_of(ranks, raw), ())
    ends = piece.parts(len(piece.merges))
    if raw in ranks and len(ends) > 1:
        return Piece(text, raw, (), (ids[ranks[raw]],), whole=True)
    return Piece(text, raw, piece.merges, tuple(ids[ranks[each]] for each in ends))
