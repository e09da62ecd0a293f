"""Kinds of tokens for a corpus: exactly one for each token, told from the texts around it."""

from collections.abc import Sequence

import numpy as np

from model.claims.kinds_of_tokens import FUNCTION_WORDS, names, one_of, punctuation, word_rests, word_starts
from model.public import public

# The first kind whose definition fits. `first`: the first token of a sequence, BOS or not. `space`: only spaces or line
# breaks. `digit`: digits without letters. `punctuation`: neither letters nor digits. `name`: the beginning of a
# capitalized word inside a sentence. `function`: a word of FUNCTION_WORDS, such as "the". `word`: the beginning of
# another word. `inside`: letters that continue a word. `other`: everything else, such as parts of characters.
KINDS = ("first", "space", "digit", "punctuation", "name", "function", "word", "inside", "other")


@public()
def kinds_of(pieces: Sequence[str]) -> np.ndarray:
    """Return the kind of each token of a text, as its index into KINDS; `first` is left to the sequences. uint8 [T]"""
    if not pieces:
        return np.empty(0, np.uint8)
    bare = [piece.strip() for piece in pieces]
    chosen = (
        [not text for text in bare],
        [any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) for text in bare],
        punctuation(pieces),
        names(pieces),
        one_of(pieces, FUNCTION_WORDS),
        word_starts(pieces),
        word_rests(pieces),
    )
    kinds = np.full(len(pieces), KINDS.index("other"), np.uint8)
    for code, mask in reversed(tuple(enumerate(chosen, start=1))):
        kinds[np.asarray(mask, bool)] = code
    return kinds
