"""The passages on which claims are tested: the held-out chapter in pieces of equal length."""

import functools
import itertools

from model.text.held_out import bundled_text

PASSAGES = 200  # number of passages: about 30 words, or 40 tokens, each


@functools.cache
def passages() -> tuple[str, ...]:
    """Cut the held-out chapter into PASSAGES consecutive texts with nearly equal numbers of words.

    They are cut at words, not at sentences, and do not depend on a tokenizer.
    """
    words = bundled_text().split()
    ends = [round(len(words) * n / PASSAGES) for n in range(PASSAGES + 1)]
    return tuple(" ".join(words[start:end]) for start, end in itertools.pairwise(ends))


def spread(texts: int) -> tuple[int, ...]:
    """Return the numbers of `texts` passages, evenly spaced over the chapter."""
    return tuple(n * PASSAGES // texts for n in range(texts))
