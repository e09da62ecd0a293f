"""Words and sentences as spans of tokens, and attention between them instead of between tokens."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from model.arguments import shown
from model.errors import InputError, say
from model.public import array, listed, one_of, public
from model.text.characters import character_groups, clusters_of
from model.text.sentences import split_sentences

UNITS = ("tokens", "words", "sentences")
Span = tuple[int, int]  # first token, one after the last

# A token that as a whole is one of these is a unit of its own.
_SPECIAL = re.compile(
    rb"<\|[^|<>]+\|>|<\xef\xbd\x9c[^<>]+\xef\xbd\x9c>|</?s>"
    rb"|<(?:bos|eos|pad|unk|mask|cls|sep|(?:start|end)_of_(?:turn|image)|image|unused\d+|extra_id_\d+)>"
    rb"|\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS|/?INST|unused\d+)\]"
)
_BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}>)+")  # a token that is no text on its own, as in `Tokens.pieces`
_LINES = "\n\r\v\f\x85\u2028\u2029"
# Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer, Japanese kana, Chinese characters.
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"\w")
_APOSTROPHES, _POINTS = "'’", ".,"


# --- spans ---------------------------------------------------------------------------------------------------


@public(unit=one_of(UNITS))
def spans_of(raw: Sequence[bytes], unit: str) -> tuple[Span, ...]:
    """Partition tokens into words or sentences: half-open ranges of tokens, in order.

    `raw` holds the bytes of each token [T], as in `Tokens.raw`; `unit` is one of UNITS.

    A word is a run of letters, digits and marks with the white space before it. It keeps an apostrophe between letters
    ("didn't") and a point or comma between digits ("3.14"). Any other sign is a word of its own, a repeated one ("...")
    a single word, and so are line breaks. These are the word boundaries of Unicode Standard Annex 29 in simplified
    form, except that spaces belong to the next word. In scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer,
    Burmese), each character is a word. A character is an extended grapheme cluster: an emoji is never split.
    Sentences are those of `model.text.sentences`.

    A token belongs to the unit of its first character that is not a space, so a token of several words or characters
    counts as the first of them. Special tokens such as `<|endoftext|>` or `[CLS]` are units of their own.
    """
    if unit == "tokens" or not raw:
        return tuple((at, at + 1) for at in range(len(raw)))
    starts: list[int] = []
    special = [_SPECIAL.fullmatch(each) is not None for each in raw]
    edges = [0, *(at for at in range(1, len(raw)) if special[at] or special[at - 1]), len(raw)]
    for first, end in pairwise(edges):
        starts += [first + at for at in _unit_starts(raw[first:end], unit)]
    return tuple(pairwise([*starts, len(raw)]))


@public(unit=one_of(UNITS))
def spans_of_strings(tokens: Sequence[str], unit: str) -> tuple[Span, ...]:
    """Partition tokens into words or sentences, from their readable texts (" cat", "cat", "<0xE2>").

    If no token contains a space, each one begins a word, except a continuation such as "##ing". See `spans_of`.
    """
    raw = [_bytes_of(token) for token in tokens]
    if len(raw) > 1 and not any(" " in token for token in tokens):
        raw = [each[2:] if each.startswith(b"##") and len(each) > 2 else b" " + each for each in raw]
        raw = [each[1:] if _SPECIAL.fullmatch(each[1:]) else each for each in raw]
    return spans_of(raw, unit)


def has_no_spaces(text: str) -> bool:
    """Return whether a text has characters of scripts without spaces, where one counts as a word."""
    return _NO_SPACES.search(text) is not None


def _bytes_of(token: str) -> bytes:
    if _BYTES.fullmatch(token):
        return bytes.fromhex(re.sub(r"[<>]|0x", "", token))
    return token.encode("utf-8", "replace")


def _unit_starts(raw: Sequence[bytes], unit: str) -> list[int]:
    """Return the first token of each unit, beginning with token 0. Tokens that share a character stay together."""
    groups = [group.start for group in character_groups(raw, clusters=True)]
    edges = [0, *accumulate(map(len, raw))]
    joined = b"".join(raw)
    cells = _cells(joined)
    starts = _word_starts(cells) if unit == "words" else _sentence_starts(joined)
    # for each byte, the next one that is not white space, or itself in white space at the end
    inked = list(range(len(joined) + 1))
    for start, text in reversed(cells):
        if text.isspace():
            size = len(text.encode())
            inked[start : start + size] = [inked[start + size]] * size
    units = []
    for start, end in pairwise([*(edges[at] for at in groups), edges[-1]]):
        place = inked[start] if inked[start] < end else start
        units.append(bisect_right(starts, place))
    return [at for n, at in enumerate(groups) if n == 0 or units[n] != units[n - 1]]


def _cells(joined: bytes) -> list[tuple[int, str]]:
    """Cut a text into extended grapheme clusters, each with its first byte; bytes that are no text are surrogates."""
    ends = dict(clusters_of(joined))
    cells, at = [], 0
    while at < len(joined):
        end = ends.get(at, at + 1)
        cells.append((at, joined[at:end].decode(errors="surrogateescape")))
        at = end
    return cells


def _kind(text: str) -> str:
    """Classify a grapheme cluster: "line", "space", "alone" (a word by itself), "word", "bytes" or the sign itself."""
    if text[0] in _LINES:
        return "line"
    if text.isspace():
        return "space"
    if "\udc80" <= text[0] <= "\udcff":
        return "bytes"
    if _NO_SPACES.match(text):
        return "alone"
    return "word" if _WORD.match(text) else text


def _word_starts(cells: Sequence[tuple[int, str]]) -> list[int]:
    """Return the byte at which each word begins, white space before it included."""
    kinds = [_kind(text) for _, text in cells]
    for at, (_, text) in enumerate(cells[1:-1], 1):
        before, after = cells[at - 1][1], cells[at + 1][1]
        letters = text in _APOSTROPHES and kinds[at - 1] == kinds[at + 1] == "word"
        digits = text in _POINTS and before.isdecimal() and after.isdecimal()
        if letters or digits:
            kinds[at] = "word"
    starts = [0]
    for at, (start, _) in enumerate(cells[1:], 1):
        before, kind = kinds[at - 1], kinds[at]
        if before != "space" and (kind != before or kind == "alone"):
            starts.append(start)
    return starts


def _sentence_starts(joined: bytes) -> list[int]:
    """Return the byte at which each sentence begins."""
    pieces = split_sentences(joined.decode(errors="surrogateescape"))
    return [0, *accumulate(len(piece.encode(errors="surrogateescape")) for piece in pieces)]


# --- attention between spans --------------------------------------------------------------------------------


@public(weights=array(finite=False), query_spans=listed, key_spans=listed)
def summed(weights: np.ndarray, query_spans: Sequence[Span], key_spans: Sequence[Span]) -> np.ndarray:
    """Sum attention over the keys of each span, and average it over the queries of each span. [..., T, S] -> [..., Q,
    K], of the same dtype (float64 for integers)

    Rows that sum to 1 still do (Clark et al. 2019, section 4.1, "word-word attention maps"). Spans partition the
    queries and the keys, as from `spans_of`. NaN marks a cell without a value, such as a future key: it counts as 0,
    and the result is NaN only where all cells of two spans are NaN. A query without any value is left out of the
    average. Raises InputError for spans that do not partition the axes.
    """
    if weights.ndim < 2:
        raise InputError(
            "An array has the wrong shape.", f"weights: {weights.shape}", say("Expected: {}.", "[..., T, S]")
        )
    queries, keys = (_starts(spans, n) for spans, n in zip((query_spans, key_spans), weights.shape[-2:], strict=True))
    known = ~np.isnan(weights)
    sums = np.add.reduceat(np.where(known, weights, 0).astype(np.float64), keys, axis=-1)
    sums = np.add.reduceat(sums, queries, axis=-2)
    valid = np.add.reduceat(known.any(-1, keepdims=True).astype(np.float64), queries, axis=-2)
    some = np.logical_or.reduceat(np.logical_or.reduceat(known, keys, axis=-1), queries, axis=-2)
    means = np.divide(sums, valid, out=np.full(sums.shape, np.nan), where=some)
    return means.astype(weights.dtype) if weights.dtype.kind == "f" else means


def _starts(spans: Sequence[Span], length: int) -> np.ndarray:
    """Return where each span begins. Raises InputError unless the spans partition `length` tokens."""
    pairs = [tuple(span) if isinstance(span, Sequence) and len(span) == 2 else (-1, -1) for span in spans]
    edges = [0, *(end for _, end in pairs)]
    if pairs != list(pairwise(edges)) or edges[-1] != length or sorted(set(edges)) != edges:
        got = f"{shown(list(spans))}, {length} tokens"
        raise InputError(
            "The spans do not cover the tokens.", got, "Give ranges that follow each other, as spans_of does."
        )
    return np.array(edges[:-1])
