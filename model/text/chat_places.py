"""Locations of the messages' texts in a rendered conversation, and the turn of each token."""

import re
from collections.abc import Sequence

import numpy as np

TEMPLATE = -1  # turn number of the template's own text

Place = tuple[int, int, int]  # first character, end (exclusive), turn


def places(text: str, frame: str, contents: Sequence[str], marks: Sequence[str]) -> list[Place]:
    """Find the turns in `text` with `frame`: the same conversation with a mark, one character, in place of each text.

    A template may trim or shorten a text; its place is then everything between the template's own words. The places
    end at the first deviation of the text from the frame.
    """
    if not marks:
        return []
    pieces = re.split("([" + "".join(map(re.escape, marks)) + "])", frame)
    own, turns = pieces[::2], [marks.index(mark) for mark in pieces[1::2]]
    if not text.startswith(own[0]):
        return []
    at = len(own[0])
    spans: list[Place] = []
    for turn, after in zip(turns, own[1:], strict=True):
        last = len(spans) == len(turns) - 1
        end = _end(text, at, contents[turn], after, last)
        if end < 0:
            break
        spans.append((at, end, turn))
        at = end + len(after)
    return spans


def _end(text: str, at: int, content: str, after: str, last: bool) -> int:
    """Return the index at which a turn's text that begins at `at` ends and the template's text `after` begins; -1 if
    not found.
    """
    for written in (content, content.strip(), content.rstrip(), content.lstrip()):
        end = at + len(written)
        if text.startswith(written + after, at) and (not last or end + len(after) == len(text)):
            return end
    if last:
        end = len(text) - len(after)
        return end if end >= at and text.endswith(after) else -1
    return text.find(after, at) if after else -1


def turn_of_characters(length: int, spans: Sequence[Place]) -> np.ndarray:
    """Return the turn of each character, -1 for the template's text. [length]"""
    turns = np.full(length, TEMPLATE, np.int64)
    for start, end, turn in spans:
        turns[start:end] = turn
    return turns


def turn_of_tokens(turns: np.ndarray, sizes: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """Compute the turn of each token of a stretch of text from the turns of its characters.

    `sizes` are the bytes of each character, `lengths` those of each token; both have the same sum. A token with bytes
    of both the template and a turn belongs to the turn, because it contains a user's text.
    """
    of_bytes = np.repeat(turns, sizes)
    ends = np.cumsum(lengths)
    return [int(of_bytes[end - length : end].max(initial=TEMPLATE)) for end, length in zip(ends, lengths, strict=True)]
