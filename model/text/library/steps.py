"""The steps by which a tokenizer of the `tokenizers` library builds its tokens, computed by our own code from the
vocabulary: merges for BPE, the lattice of all pieces and its best path for Unigram, the longest matches for WordPiece.
"""

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from model.text.library.engine import LibraryEngine

UNKNOWN_PENALTY = 10.0  # what an unknown character scores below the lowest piece of Unigram, in nats


@dataclass(frozen=True)
class Arc:
    """A token of the vocabulary that covers the characters from `start` up to `end` of a word."""

    start: int
    end: int
    id: int
    score: float | None  # log probability; None without one (WordPiece)
    prefix: str = ""  # of its name in the vocabulary, for a token that continues a word (WordPiece: "##")


@dataclass(frozen=True)
class Reached:
    """One step through a lattice: the arcs considered, best first, as (index of the arc, total score up to its end)."""

    at: int  # number of characters that are covered
    considered: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True)
class Lattice:
    """All tokens that a word could be made of, and the path through them."""

    characters: tuple[str, ...]
    arcs: tuple[Arc, ...]
    steps: tuple[Reached, ...]
    path: tuple[int, ...]  # indices of arcs


@dataclass(frozen=True)
class Word:
    """A stretch of text whose tokens do not depend on the rest, with the steps that built them.

    start: ids of the parts before the first merge. merges: (index of the left part, rank). pairs: the mergeable pairs
    before each merge, as (rank, index of the left part).
    """

    text: str
    ids: tuple[int, ...]
    start: tuple[int, ...] = ()
    merges: tuple[tuple[int, int], ...] = ()
    pairs: tuple[tuple[tuple[int, int], ...], ...] = ()
    added: bool = False
    whole: bool = False
    lattice: Lattice | None = None
    bare: bool = False  # whether `text` is a word of the text as it was split, without a space (WordPiece)


@dataclass(frozen=True, eq=False)
class Tables:
    """The vocabulary of a tokenizer, as the steps need it."""

    kind: str
    model: Mapping
    vocab: Mapping[str, int]
    scores: Mapping[str, float]
    ranks: Mapping[tuple[str, str], int]
    longest: int
    added: Mapping[str, int]

    @property
    def unknown(self) -> int | None:
        """The id of the unknown token."""
        if self.kind == "Unigram":
            return self.model.get("unk_id")
        return self.vocab.get(self.model.get("unk_token") or "")


@functools.lru_cache(maxsize=4)
def tables_of(engine: LibraryEngine) -> Tables:
    """Read the tables of an engine."""
    model = engine.content["model"]
    listed = model["vocab"]
    scored = isinstance(listed, list)
    vocab = {text: number for number, (text, _) in enumerate(listed)} if scored else listed
    merges = (
        tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model.get("merges") or ()
    )
    return Tables(
        kind=model["type"],
        model=model,
        vocab=vocab,
        scores=dict(listed) if scored else {},
        ranks={pair: rank for rank, pair in enumerate(merges)},
        longest=max(map(len, vocab), default=1),
        added={token["content"]: token["id"] for token in engine.content["added_tokens"] if not token["special"]},
    )


def words_of(engine: LibraryEngine, text: str) -> list[Word]:
    """Tokenize a text step by step; the concatenated ids are those of the engine, unless it splits the text in a way
    that is not visible from outside (the caller compares).
    """
    tables, words = tables_of(engine), []
    pattern = "|".join(map(re.escape, sorted(tables.added, key=len, reverse=True)))
    for at, part in enumerate(re.split(f"({pattern})", text) if pattern else [text]):
        if at % 2:
            words.append(Word(part, (tables.added[part],), added=True))
        else:
            for piece in engine.split(part):
                words += _KINDS[tables.kind](tables, piece)
    return words


# --- BPE ---


def _merged(tables: Tables, piece: str) -> Iterator[Word]:
    """Yield the words of a piece of text, each with its merges."""
    if tables.model.get("ignore_merges") and piece in tables.vocab:
        yield Word(piece, (tables.vocab[piece],), whole=True)
        return
    for word, last in _independent(tables, piece):
        yield _merge(tables, word, first=piece.startswith(word), last=last)


def _merge(tables: Tables, word: str, first: bool, last: bool) -> Word:
    prefix = tables.model.get("continuing_subword_prefix") or ""
    suffix = tables.model.get("end_of_word_suffix") or ""
    parts: list[str | None] = []  # None for an unknown character
    for at, character in enumerate(word):
        text = ("" if first and at == 0 else prefix) + character + (suffix if last and at == len(word) - 1 else "")
        own = [f"<0x{byte:02X}>" for byte in character.encode()] if tables.model.get("byte_fallback") else [""]
        if text in tables.vocab:
            parts.append(text)
        elif all(each in tables.vocab for each in own):
            parts += own
        elif tables.unknown is not None and not (tables.model.get("fuse_unk") and parts and parts[-1] is None):
            parts.append(None)

    def ids() -> tuple[int, ...]:
        return tuple(tables.unknown if part is None else tables.vocab[part] for part in parts)

    start, merges, pairs = ids(), [], []
    while True:
        found = ((tables.ranks.get(pair), at) for at, pair in enumerate(pairwise(parts)))
        mergeable = sorted((rank, at) for rank, at in found if rank is not None)
        if not mergeable:
            break
        rank, at = mergeable[0]
        pairs.append(tuple(mergeable))
        merges.append((at, rank))
        parts[at : at + 2] = [parts[at] + parts[at + 1].removeprefix(prefix)]
    return Word(word, ids(), start, tuple(merges), tuple(pairs))


def _independent(tables: Tables, piece: str) -> Iterator[tuple[str, bool]]:
    """Split a piece of text where no token of the vocabulary crosses: (text, whether it is the last).

    With a prefix or suffix for parts of words, it stays whole.
    """
    marked = any(tables.model.get(key) for key in ("continuing_subword_prefix", "end_of_word_suffix"))
    ends = [] if marked else _cuts(tables, piece)
    for start, end in pairwise([0, *ends, len(piece)] if piece else []):
        yield piece[start:end], end == len(piece)


def _cuts(tables: Tables, piece: str) -> list[int]:
    crossed = [False] * (len(piece) + 1)
    for start in range(len(piece)):
        longest = max((end for end in _ends(tables, piece, start) if piece[start:end] in tables.vocab), default=0)
        for at in range(start + 1, longest):
            crossed[at] = True
    return [at for at in range(1, len(piece)) if not crossed[at]]


def _ends(tables: Tables, piece: str, start: int) -> range:
    return range(start + 1, min(len(piece), start + tables.longest) + 1)


# --- Unigram ---


def _best_path(tables: Tables, piece: str) -> Iterator[Word]:
    """Yield the words of a piece of text, each with its lattice and the path of the highest total log probability.

    Viterbi (Kudo 2018): the best total at a position is the maximum over the arcs that end there. A character without
    a token of its own scores `UNKNOWN_PENALTY` below the lowest piece.
    """
    unknown = min(tables.scores.values(), default=0.0) - UNKNOWN_PENALTY
    fused: list[Word] = []
    before = 0.0  # the sum so far: with the same order of additions, ties are decided as in the library
    for word, _ in _independent(tables, piece):
        one, before = _viterbi(tables, word, unknown, before)
        same = fused and one.ids == fused[-1].ids == (tables.unknown,)
        if same:  # neighboring unknown characters are one token
            fused[-1] = Word(fused[-1].text + word, one.ids, start=one.ids)
        else:
            fused.append(one)
    yield from fused


def _viterbi(tables: Tables, word: str, unknown: float, before: float) -> tuple[Word, float]:
    """Return the word, and the sum of the scores up to its end; `before` is that up to its beginning."""
    arcs: list[Arc] = []
    for start in range(len(word)):
        own = [end for end in _ends(tables, word, start) if word[start:end] in tables.vocab]
        arcs += [Arc(start, end, tables.vocab[word[start:end]], tables.scores[word[start:end]]) for end in own]
        if start + 1 not in own:
            arcs.append(Arc(start, start + 1, -1 if tables.unknown is None else tables.unknown, unknown))
    totals, last, steps = [before, *[-math.inf] * len(word)], [-1] * (len(word) + 1), []
    for at in range(1, len(word) + 1):
        ending = [(n, totals[arc.start] + arc.score) for n, arc in enumerate(arcs) if arc.end == at]
        ending.sort(key=lambda each: (-each[1], arcs[each[0]].start))
        (last[at], totals[at]) = ending[0]
        steps.append(Reached(at, tuple((n, total - before) for n, total in ending)))
    path, at = [], len(word)
    while at:
        path.insert(0, last[at])
        at = arcs[last[at]].start
    lattice = Lattice(tuple(word), tuple(arcs), tuple(steps), tuple(path))
    ids: list[int] = []
    for arc in (arcs[n] for n in path):
        text = word[arc.start : arc.end]
        own = [tables.vocab.get(f"<0x{byte:02X}>") for byte in text.encode()] if text not in tables.vocab else [arc.id]
        if text not in tables.vocab and not (tables.model.get("byte_fallback") and None not in own):
            own = [] if ids[-1:] == [arc.id] else [arc.id]
        ids += own
    return Word(word, tuple(ids), lattice=lattice), totals[-1]


# --- WordPiece ---


def _longest_matches(tables: Tables, piece: str) -> Iterator[Word]:
    """Yield the word with its longest matches: at each position, the longest token of the vocabulary (Wu et al. 2016).

    If no token fits somewhere, the whole word is the unknown token.
    """
    prefix = tables.model.get("continuing_subword_prefix", "##")
    arcs: list[Arc] = []
    steps, path, at = [], [], 0
    unknown = () if tables.unknown is None else (tables.unknown,)
    while at < len(piece) <= tables.model.get("max_input_chars_per_word", 100):
        begin = prefix if at else ""
        found = [end for end in _ends(tables, piece, at) if begin + piece[at:end] in tables.vocab]
        if not found:
            yield Word(piece, unknown, lattice=Lattice(tuple(piece), tuple(arcs), tuple(steps), ()), bare=True)
            return
        numbers = range(len(arcs), len(arcs) + len(found))
        arcs += [Arc(at, end, tables.vocab[begin + piece[at:end]], None, begin) for end in sorted(found, reverse=True)]
        at = max(found)
        steps.append(Reached(at, tuple((n, None) for n in numbers)))
        path.append(numbers[0])
    if not path:
        yield Word(piece, unknown, start=unknown, bare=True)
        return
    lattice = Lattice(tuple(piece), tuple(arcs), tuple(steps), tuple(path))
    yield Word(piece, tuple(arcs[n].id for n in path), lattice=lattice, bare=True)


def _looked_up(tables: Tables, piece: str) -> Iterator[Word]:
    number = tables.vocab.get(piece, tables.unknown)
    yield Word(piece, () if number is None else (number,), whole=True)


_KINDS: dict[str, Callable[[Tables, str], Iterator[Word]]] = {
    "BPE": _merged,
    "Unigram": _best_path,
    "WordPiece": _longest_matches,
    "WordLevel": _looked_up,
}
