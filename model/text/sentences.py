"""Where sentences of a text end: signs of several scripts, line breaks, and periods that end no sentence."""

import re

_CLOSING = "[\"'”’」』»)\\]）】]*"
_SIGNS = "。！？｡؟۔।॥"  # of Chinese, Japanese, Arabic, Urdu, Hindi: they end a sentence without a space, too
# Last signs with closing quotes, before a space or the text's end. Line breaks that follow belong to the sentence.
_END = re.compile(rf"(?:[.!?…]+{_CLOSING}(?=\s|\Z)|[{_SIGNS}]+{_CLOSING})(?:[^\S\n]*\n)*|\n(?:[^\S\n]*\n)*")
_STOPPED = re.compile(rf"[.!?…{_SIGNS}]{_CLOSING}\Z")
# A period after one of these or after a single capital (an initial, except I) ends no sentence.
_SHORT = re.compile(
    r"(?:\b(?:Mrs?|Ms|Mx|Drs?|Prof|St|Sr|Jr|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|vs|etc|cf|al|approx|[Ff]igs?|[Ee]qs?"
    r"|[Nn]os?|[Ss]ec|[Pp]p|[Vv]ol|[Ee]d|e\.g|i\.e|a\.k\.a)|\b[A-HJ-Z])\Z"
)
_LONGEST = 8  # characters before a period that are compared with the list


def sentence_ends(text: str) -> list[int]:
    """Return the positions after each sentence of a text, in characters, without that of an unfinished last one.

    A sentence ends after `.`, `!`, `?` or `…` before a space, after a sign such as `。`, and at a line break. Closing
    quotes and the line breaks that follow belong to it. Periods in numbers ("3.5"), after common abbreviations ("Dr.",
    "e.g.") and after initials ("J. Smith") end no sentence. Thai has no sign for it.
    """
    return [found.end() for found in _END.finditer(text) if not _is_short(text, found)]


def _is_short(text: str, found: re.Match) -> bool:
    """Return whether the match is the period of an abbreviation within a line."""
    start = found.start()
    return found[0] == "." and found.end() < len(text) and bool(_SHORT.search(text[max(0, start - _LONGEST) : start]))


def split_sentences(text: str) -> list[str]:
    """Cut a text after each sentence; the pieces joined are the text."""
    ends = sentence_ends(text)
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


def has_stop(text: str) -> bool:
    """Return whether a text ends with the last sign of a sentence, closing quotes apart."""
    return _STOPPED.search(text) is not None
