"""Metrics and thumbnails of every head between words or sentences instead of between tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from model.attention.measures import attend_rows
from model.attention.spans import UNITS, Span, spans_of, summed
from model.public import one_of, public
from model.tracing.head_metrics import (
    find_repeats,
    head_metrics,
    metrics_table,
    rows_from_pattern,
    thumbnails_from_pattern,
)
from model.tracing.trace import Trace

_CHUNK = 256  # query tokens per step, to limit memory; a longer sentence is one step


@dataclass(frozen=True, eq=False)
class SpanHeads:
    """Thumbnails and metrics of every head of a model on one prompt, by words or sentences."""

    thumbnails: np.ndarray  # uint8 [L, H, t, t], as in `Trace.thumbnails`
    metrics: pd.DataFrame  # index (layer, head), one column for each of HEAD_METRICS


@public(unit=one_of(UNITS))
def span_heads(trace: Trace, unit: str) -> SpanHeads:
    """Compute the metrics and thumbnails of all heads from their summed maps (`summed`).

    Every metric is the one of HEAD_METRICS on the map of words or sentences: distances are counted in them, the
    previous one is the one before, and copies are equal texts, white space around them apart. For "tokens" they are
    those of the trace.
    """
    if unit == "tokens":
        return SpanHeads(trace.thumbnails, trace.head_metrics())
    spans = spans_of(trace.tokens.raw, unit)
    texts = [b"".join(trace.tokens.raw[start:end]).strip() for start, end in spans]
    numbers = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    repeats = find_repeats(torch.tensor([numbers[text] for text in texts]))
    metrics, thumbnails = [], []
    for layer in range(trace.config.n_layer):
        pattern = torch.from_numpy(_layer(trace, layer, spans))  # [H, Q, Q]
        metrics.append(head_metrics(rows_from_pattern(pattern, repeats), repeats).numpy())
        thumbnails.append(thumbnails_from_pattern(pattern).numpy())
    return SpanHeads(np.stack(thumbnails), metrics_table(np.stack(metrics)))


def _layer(trace: Trace, layer: int, spans: Sequence[Span]) -> np.ndarray:
    """Compute the summed maps of a layer's heads, a few rows at a time. float32 [H, Q, Q], 0 above the diagonal"""
    parts = []
    for group in _groups(spans) if trace.tap is None else [list(spans)]:  # each call applies edits to a complete layer
        first, end = group[0][0], group[-1][1]
        rows = attend_rows(trace, layer, range(first, end)).numpy()
        parts.append(summed(rows, [(a - first, b - first) for a, b in group], spans))
    return np.concatenate(parts, axis=1)


def _groups(spans: Sequence[Span]) -> list[list[Span]]:
    """Split spans into groups of neighbors of about _CHUNK tokens."""
    groups: list[list[Span]] = []
    for span in spans:
        if not groups or span[1] - groups[-1][0][0] > _CHUNK:
            groups.append([])
        groups[-1].append(span)
    return groups
