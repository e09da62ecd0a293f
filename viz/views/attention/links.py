"""Lists of attention edges of limited size: the data of the `lines` and `text` views."""

import base64
from collections.abc import Sequence

import numpy as np

from model.attention.measures import MEASURES
from model.records import Tokens
from viz.characters import frames, part_notes
from viz.labels import visible
from viz.seam.view import Payload, Seen
from viz.views.attention.patterns import (
    has_sink,
    hidden_note,
    lines_of,
    rules_note,
    run_name,
    titles,
    value_name,
    without_sign,
)
from viz.views.attention.units import merged, shown_spans, unit_note, unit_payload, unit_words
from viz.words import Words, joined

ALL_UP_TO = 256  # maximum number of prompt tokens for which all links are sent
STRONGEST = 64  # maximum number of links sent per row of a longer prompt
MOST_LINKS = 120_000  # maximum total over all panels: 6 bytes per link, 8 in base64, about a megabyte
_MOST_TOKENS = 1 << 16  # because keys are uint16


def drawn_links(seen: Seen) -> Payload:
    """Build the payload of a view of links for the selected heads: links, title, note and words."""
    facts, words, of = seen.facts, Words(seen.all_words, "attention.links"), seen.settings.of
    signed = MEASURES[seen.settings.measure].scale == "signed"
    name = without_sign(seen.settings.measure)
    shown = titles(facts, seen.all_words, name, of)
    unit = seen.settings.unit
    notes = (
        words["no_scores"] if signed else "",
        unit_note(facts, seen.all_words, name, unit),
        hidden_note(facts, seen.all_words, name, of),
    )
    panels = list(zip(shown.panels, seen.result.z, strict=True))
    one = seen.result.z[0] if name == "weights" and len(panels) == 1 and unit == "tokens" else None
    notes += (rules_note(facts, seen.all_words, one),)
    spans = shown_spans(facts, unit)
    tokens = merged(facts.tokens, spans)
    return (
        links_payload(panels, shown.heads, tokens)
        | unit_payload(spans)
        | {
            "parts": list(part_notes(tokens.raw, seen.all_words).items()),
            "run": run_name(facts, shown.name, unit),
            "title": shown.title,
            "sink": one is not None and has_sink(facts),
            "measure": value_name(facts, seen.all_words, name, of),
            "note": joined(notes),
            "python": lines_of(facts, name, of, unit),
            "words": words.plain() | seen.here.plain() | unit_words(seen.all_words, unit),
        }
    )


def links_payload(panels: Sequence[tuple[str, np.ndarray]], heads: Sequence[Sequence[int]], tokens: Tokens) -> Payload:
    """Build the links of each panel (name, z). z is float [T, T], at least 0, and NaN where undefined.

    All links are sent if T <= ALL_UP_TO, otherwise the STRONGEST of each row; fewer if all panels together would have
    more than MOST_LINKS. `kept` is the maximum per row, None if no link is omitted. A panel has `counts` (uint16 [T],
    links per row), `keys` (uint16), `weights` (float32) and `totals` (float32 [T], sums of complete rows, 0 for
    undefined ones). Keys and weights are sorted by row, then by decreasing weight, then by increasing key. All arrays
    are little-endian in base64. Raises ValueError for mismatched shapes and for negative or infinite values.
    """
    T = len(tokens)
    if len(heads) != len(panels):
        raise ValueError(f"every panel needs its head, got {len(panels)} panels and {len(heads)} heads")
    if T > _MOST_TOKENS:
        raise ValueError(f"a key must fit a uint16, got {T} tokens")
    for name, z in panels:
        _check(name, z, T)
    limit = _limit_per_row([np.isfinite(z).sum(1) for _, z in panels], T)
    parts = [
        {"name": name, "head": list(head), **_coded(z, limit)} for (name, z), head in zip(panels, heads, strict=True)
    ]
    cut = any(np.isfinite(z).sum(1).max(initial=0) > limit for _, z in panels)
    return {
        "tokens": [visible(piece) for piece in tokens.pieces],
        "frames": frames(tokens.raw),
        "breaks": [[i, min(piece.count("\n"), 2)] for i, piece in enumerate(tokens.pieces) if "\n" in piece],
        "kept": limit if cut else None,
        "panels": parts,
    }


def _check(name: str, z: np.ndarray, T: int) -> None:
    """Raise ValueError unless z is [T, T] with entries that are NaN, or finite and at least 0."""
    if z.shape != (T, T):
        raise ValueError(f"panel {name} must be [T, T] for {T} tokens, got {z.shape}")
    if (z < 0).any() or np.isinf(z).any():
        raise ValueError(f"panel {name} must hold finite values of at least 0, got {np.nanmin(z)} .. {np.nanmax(z)}")


def _limit_per_row(counts: Sequence[np.ndarray], T: int) -> int:
    """Compute the maximum number of links per row. `counts`: number of links in each row [T], for each panel."""
    limit = T if T <= ALL_UP_TO else STRONGEST
    while limit > 1 and sum(int(np.minimum(n, limit).sum()) for n in counts) > MOST_LINKS:
        limit -= 1
    return limit


def strongest(z: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and keys [n] of the `limit` largest entries of each row, by row, decreasing value and increasing key.

    NaN is omitted. Of equal values at the cutoff, those with the smallest keys are kept.
    """
    filled = np.where(np.isnan(z), -np.inf, z)
    edge = -np.partition(-filled, limit - 1, axis=1)[:, limit - 1 : limit]  # smallest value that is kept, [T, 1]
    above, at_edge = filled > edge, (filled == edge) & ~np.isnan(z)
    room = limit - above.sum(1, keepdims=True)
    rows, keys = np.nonzero(above | (at_edge & (at_edge.cumsum(1) <= room)))
    order = np.lexsort((keys, -z[rows, keys], rows))
    return rows[order], keys[order]


def _coded(z: np.ndarray, limit: int) -> dict[str, str]:
    """Encode the links of one panel and the totals of its rows."""
    rows, keys = strongest(z, limit)
    return {
        "counts": _base64(np.bincount(rows, minlength=len(z)), "<u2"),
        "keys": _base64(keys, "<u2"),
        "weights": _base64(z[rows, keys], "<f4"),
        "totals": _base64(np.nansum(z, axis=1, dtype=np.float64), "<f4"),
    }


def _base64(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()
