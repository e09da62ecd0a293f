"""Prompt lookup: a draft without a model, which repeats what followed an earlier occurrence of the last tokens."""

from collections.abc import Sequence


def lookup(text: Sequence[int], n: int, most: int) -> list[int]:
    """Return the tokens after the latest earlier occurrence of the longest repeated suffix of at most n tokens.

    Returns [] if no suffix occurs earlier. Saxena 2023 (prompt lookup decoding) uses the first occurrence instead.
    """
    text = list(text)
    for length in range(min(n, len(text) - 1), 0, -1):
        suffix = text[-length:]
        for start in range(len(text) - length - 1, -1, -1):
            if text[start : start + length] == suffix:
                return text[start + length : start + length + most]
    return []
