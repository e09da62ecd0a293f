"""Attention between words or sentences instead of tokens: keys are summed, queries averaged, so rows still sum to 1."""

from dataclasses import replace

import numpy as np

from model.attention.spans import UNITS, Span, spans_of_strings, summed
from model.recorded.record import AttentionRecord

__all__ = ["UNITS", "in_units", "units_of"]


def units_of(record: AttentionRecord) -> dict[str, tuple[tuple[Span, ...], tuple[Span, ...] | None]]:
    """Return the spans of query and key tokens by unit, without units that are the tokens themselves. Patches of an
    image have none.
    """
    if record.image is not None:
        return {}
    found = {}
    for unit in UNITS[1:]:
        queries = spans_of_strings(record.queries, unit)
        keys = None if record.keys is None else spans_of_strings(record.keys, unit)
        if len(queries) < len(record.queries) or (keys is not None and len(keys) < len(record.key_tokens)):
            found[unit] = queries, keys
    return found


def in_units(record: AttentionRecord, unit: str) -> AttentionRecord:
    """Return the attention between words or sentences. Undefined rows, which are 0 everywhere, are left out of the
    averages.
    """
    spans = units_of(record).get(unit)
    if spans is None:
        return record
    queries, keys = spans
    defined = np.where(record.weights.any(-1, keepdims=True), record.weights, np.nan)
    weights = summed(defined, queries, queries if keys is None else keys)
    return replace(
        record,
        weights=np.where(np.isnan(weights), 0, weights).astype(np.float32),
        queries=_joined(record.queries, queries),
        keys=None if keys is None else _joined(record.key_tokens, keys),
    )


def _joined(texts: tuple[str, ...], spans: tuple[Span, ...]) -> tuple[str, ...]:
    return tuple("".join(texts[start:end]) for start, end in spans)
