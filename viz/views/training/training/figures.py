"""The payload of a snapshot of a model during training."""

import base64
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from model.records import Snapshot, Tokens
from viz.charts.heatmap import Panel, PatternWords, Window, pattern_figure
from viz.labels import visible, visible_lines
from viz.numbers import plain

_SCORES = ("previous_token", "induction", "induction_baseline")


def snapshot_payload(snapshot: Snapshot, piece: Callable[[int], str], decode: Callable[[Sequence[int]], str]) -> dict:
    """Build the payload of a snapshot.

    Attention weights are little-endian 16-bit fixed-point numbers, with 65535 for 1. Values that are not finite become
    None.
    """
    shown = {i: visible(piece(i)) for i in {int(n) for n in snapshot.top_ids.flat}}
    top = zip(snapshot.top_ids, snapshot.top_logits, snapshot.top_share, strict=True)
    prompt, ids = snapshot.prompt, snapshot.sample
    codes = np.round(snapshot.patterns.astype(np.float32) * 65535).astype("<u2")
    return {
        "step": snapshot.step,
        "loss": snapshot.loss,
        "accuracy": snapshot.accuracy,
        "bits": plain(snapshot.bits_per_byte),
        "patterns": base64.b64encode(codes.tobytes()).decode(),
        "top": [
            [[shown[int(i)], plain(logit), plain(share)] for i, logit, share in zip(*row, strict=True)] for row in top
        ],
        "next": [plain(share) for share in snapshot.next_share],
        "sample": {"given": visible_lines(decode(ids[:prompt])), "written": visible_lines(decode(ids[prompt:]))},
    } | {name: _numbers(getattr(snapshot, name)) for name in _SCORES}


def _numbers(scores: np.ndarray) -> list[list[float | None]]:
    """Convert the scores to nested lists, with None for values that are not finite. [L, H]"""
    return [[plain(value) for value in row] for row in scores]


def blank_figure(tokens: Tokens, words: PatternWords) -> go.Figure:
    """Draw an attention map without weights, which the page fills in from each snapshot."""
    T = len(tokens)
    empty = Panel("", np.full((T, T), np.nan, np.float32))
    return pattern_figure([empty], tokens, words, Window.whole(T), meta={"whole": True})
