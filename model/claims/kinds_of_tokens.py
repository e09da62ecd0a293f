"""Kinds of tokens, told from their texts alone: words, word starts, punctuation, names. Masks are bool [T]."""

from collections.abc import Sequence

import numpy as np


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# The most frequent English words that carry grammar rather than content.
FUNCTION_WORDS = _set(
    "a an the and or but nor so if as than that this these those of in on at to for from by with into about over after "
    "before up out is was are were be been being am has have had do does did will would shall should can could may "
    "might must not no i you he she it we they me him her us them my your his its our their who which what when where "
    "there then all"
)
SUBJECTS = _set("i you he she we they")
PRONOUNS = _set("he she him her his hers himself herself")


def _bare(pieces: Sequence[str]) -> list[str]:
    return [piece.strip() for piece in pieces]


def word_starts(pieces: Sequence[str]) -> np.ndarray:
    """Mark tokens that begin a word: the first token, and letters after a space."""
    return np.array([(n == 0 or piece[:1].isspace()) and piece.strip().isalpha() for n, piece in enumerate(pieces)])


def word_rests(pieces: Sequence[str]) -> np.ndarray:
    """Mark tokens that continue a word: letters without a space before them, after letters."""
    return np.array([n > 0 and piece.isalpha() and pieces[n - 1][-1:].isalpha() for n, piece in enumerate(pieces)])


def whole_words(pieces: Sequence[str]) -> np.ndarray:
    """Mark tokens that are a complete word: they begin one, and the next token does not continue it."""
    rests = word_rests(pieces)
    return word_starts(pieces) & ~np.append(rests[1:], False)


def punctuation(pieces: Sequence[str]) -> np.ndarray:
    """Mark tokens without letters and digits, such as commas, periods and quotation marks."""
    return np.array([bool(bare) and not any(map(str.isalnum, bare)) for bare in _bare(pieces)])


def one_of(pieces: Sequence[str], words: frozenset[str]) -> np.ndarray:
    """Mark complete words that are in a set, whatever their case."""
    return whole_words(pieces) & np.array([bare.lower() in words for bare in _bare(pieces)])


def content_words(pieces: Sequence[str]) -> np.ndarray:
    """Mark the beginnings of words that are not FUNCTION_WORDS."""
    return word_starts(pieces) & ~one_of(pieces, FUNCTION_WORDS)


def sentence_starts(pieces: Sequence[str]) -> np.ndarray:
    """Mark the first word after a period, question mark or exclamation mark; quotation marks may stand between."""
    ended, marks, starts = False, [], word_starts(pieces)
    for piece, begins in zip(_bare(pieces), starts, strict=True):
        marks.append(bool(begins and ended))
        if piece.rstrip("\"')").endswith((".", "?", "!")):
            ended = True
        elif any(map(str.isalnum, piece)):
            ended = False
    return np.array(marks)


def names(pieces: Sequence[str]) -> np.ndarray:
    """Mark capitalized words inside sentences, except I and the first word after a quotation mark."""
    quoted = [n > 0 and any(map('"'.__contains__, pieces[n - 1])) for n in range(len(pieces))]
    capital = [bare[:1].isupper() and bare != "I" for bare in _bare(pieces)]
    inside = ~sentence_starts(pieces) & ~np.array(quoted)
    inside[:1] = False
    return word_starts(pieces) & np.array(capital) & inside & ~one_of(pieces, FUNCTION_WORDS)
