"""Words or sentences instead of tokens, for all views of the tab: their texts, positions and names."""

from collections.abc import Mapping, Sequence

import numpy as np

from model.attention.measures import MEASURES
from model.attention.spans import UNITS, Span, has_no_spaces, spans_of
from model.records import Tokens
from viz.labels import span_text
from viz.seam.settings import Choice
from viz.seam.view import Facts, Payload
from viz.words import Words, joined

UNIT = Choice("unit", UNITS)


def unit_of(name: str, unit: str) -> str:
    """Return the unit in which a measure is drawn: scores are not summed, because the softmax comes after them."""
    return "tokens" if MEASURES[name].scale == "signed" else unit


def shown_spans(facts: Facts, unit: str) -> tuple[Span, ...]:
    """Return the spans of the prompt's tokens; () for single tokens."""
    return () if unit == "tokens" else spans_of(facts.tokens.raw, unit)


def merged(tokens: Tokens, spans: Sequence[Span]) -> Tokens:
    """Join the tokens of each span to a single one, with the id of its first; the tokens themselves without spans."""
    if not spans:
        return tokens
    raw = tuple(b"".join(tokens.raw[start:end]) for start, end in spans)
    pieces = tuple(_text(each, tokens.pieces[start:end]) for each, (start, end) in zip(raw, spans, strict=True))
    places = np.array([(tokens.spans[start, 0], tokens.spans[end - 1, 1]) for start, end in spans])
    return Tokens(tokens.ids[[start for start, _ in spans]], pieces, raw, places)


def _text(raw: bytes, pieces: Sequence[str]) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(pieces)


def unit_payload(spans: Sequence[Span]) -> Payload:
    """Build what the page needs to select the tokens of a word: `spans` and `positions`, nothing for tokens."""
    return {"spans": [list(span) for span in spans], "positions": [span_text(*span) for span in spans]} if spans else {}


def unit_words(catalogue: Mapping[str, str], unit: str) -> dict[str, str]:
    """Return the words that replace those of tokens: the names of axes and columns, hints; {} for tokens."""
    return {} if unit == "tokens" else Words(catalogue, f"attention.{unit}").plain()


def unit_note(facts: Facts, catalogue: Mapping[str, str], name: str, asked: str) -> str:
    """Explain how the words of a measure come from its tokens; "" for tokens. `asked` is the selected unit."""
    if asked == "tokens":
        return ""
    words, unit = Words(catalogue, "attention.units"), unit_of(name, asked)
    if unit == "tokens":
        return words["no_scores"]
    own, spans = Words(catalogue, f"attention.{unit}"), spans_of(facts.tokens.raw, unit)
    if unit == "words" and len(spans) == len(facts.tokens):
        return words["all_single"]
    notes = [own["note_other"], words[name]] if name in ("value_weighted", "flow") else [own["note"]]
    if unit == "words" and has_no_spaces(b"".join(facts.tokens.raw).decode(errors="replace")):
        notes.append(words["no_spaces"])
    return joined(notes)
