"""The token sequences of words that a step bans, and of words at which a repetition ends for DRY. One word per line."""

import re
from functools import lru_cache

from model.public import public
from model.sampling.pipeline import MOST_PHRASE
from model.text.tokenizer import Tokenizer

_LONGEST = 40  # maximum number of bytes of a breaker
_LONGEST_TAIL = 20  # maximum number of tokens of a breaker after its first one; both as in llama.cpp

_IDS = re.compile(r"\[\s*\d{1,9}(?:\s*,\s*\d{1,9})*\s*\]")

Phrases = tuple[tuple[int, ...], ...]


@public()
def banned(tokenizer: Tokenizer, words: str) -> Phrases:
    """Tokenize each line of `words` as it is and, unless it begins with a space, with a space in front.

    The two spellings are the word at the beginning and inside a text, as for `bad_words` in vLLM. A special token is
    one token. Tokens beyond MOST_PHRASE are dropped from the beginning. A line of ids in brackets, as in "[15043]" or
    "[5, 7]", is that token or these tokens in a row, as in SillyTavern; with an id beyond the vocabulary it is ignored.
    """
    return _banned(tokenizer, words)


@public()
def breakers(tokenizer: Tokenizer, words: str) -> Phrases:
    """Find the tokens that contain a line of `words`, and those that end in its beginning, followed by its rest.

    As in llama.cpp: the line break of the vocabulary's token ".\\n" counts, too. An empty line is ignored; a line break
    is written as \\n. A rest has one tokenization only.
    """
    return _breakers(tokenizer, words)


def lines_of(words: str) -> list[str]:
    """Split words into lines without the empty ones; \\n and \\t in a line stand for a line break and a tab."""
    return [line.replace("\\n", "\n").replace("\\t", "\t") for line in words.split("\n") if line]


def ids_in(line: str) -> tuple[int, ...]:
    """Return the token ids of a line "[1, 2]"; () for any other line."""
    return tuple(map(int, re.findall(r"\d+", line))) if _IDS.fullmatch(line.strip()) else ()


@lru_cache(16)
def _banned(tokenizer: Tokenizer, words: str) -> Phrases:
    found: dict[tuple[int, ...], None] = {}
    for line in lines_of(words):
        if ids := ids_in(line):
            if max(ids) < tokenizer.vocab_size:
                found[ids[-MOST_PHRASE:]] = None
            continue
        spellings = [line] if line in tokenizer.special or line[0].isspace() else [line, f" {line}"]
        for each in spellings:
            special = tokenizer.special.get(each)
            tokens = tokenizer.encode_ids(each) if special is None else [special]
            if tokens:
                found[tuple(tokens[-MOST_PHRASE:])] = None
    return tuple(found)


@lru_cache(16)
def _breakers(tokenizer: Tokenizer, words: str) -> Phrases:
    found: dict[tuple[int, ...], None] = {}
    for line in lines_of(words):
        word = line.encode()[:_LONGEST]
        for token, raw in enumerate(tokenizer.raw):
            if raw is None:
                continue
            if word in raw:
                found[(token,)] = None
                continue
            for length in range(1, min(len(word), len(raw) + 1)):
                if raw.endswith(word[:length]):
                    rest = tokenizer.encode_ids(word[length:].decode(errors="ignore"))
                    found[(token, *rest[:_LONGEST_TAIL])] = None
    return tuple(found)
