"""What the page is told of a model at one step of its training."""

import base64
import math
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from model.records import Snapshot, Tokens
from viz.charts.heatmap import Panel, PatternWords, Window, pattern_figure
from viz.labels import visible

_SCORES = ("previous_token", "induction", "induction_baseline")


def snapshot_payload(snapshot: Snapshot, piece: Callable[[int], str], decode: Callable[[Sequence[int]], str]) -> dict:
    """One saved step for JSON; weights as little-endian 16-bit fixed point, 65535 for 1, and None for NaN."""
    shown = {i: visible(piece(i)) for i in {int(n) for n in snapshot.top_ids.flat}}
    top = zip(snapshot.top_ids, snapshot.top_logits, snapshot.top_share, strict=True)
    given, ids = snapshot.prompt, snapshot.sample
    codes = np.round(snapshot.patterns * 65535).astype("<u2")
    return {
        "step": snapshot.step,
        "loss": snapshot.loss,
        "accuracy": snapshot.accuracy,
        "bits": _number(snapshot.bits_per_byte),
        "patterns": base64.b64encode(codes.tobytes()).decode(),
        "top": [
            [[shown[int(i)], round(float(z), 4), round(float(p), 6)] for i, z, p in zip(*row, strict=True)]
            for row in top
        ],
        "next": [round(float(p), 6) for p in snapshot.next_share],
        "sample": {"given": decode(ids[:given]), "written": decode(ids[given:])},
    } | {name: _numbers(getattr(snapshot, name)) for name in _SCORES}


def _number(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if math.isnan(value) else round(float(value), 5)


def _numbers(scores: np.ndarray) -> list[list[float | None]]:
    """Scores [L, H] for JSON."""
    return [[_number(value) for value in row] for row in scores]


def blank_figure(tokens: Tokens, words: PatternWords) -> go.Figure:
    """The heat map of a head without its weights, which the page fills in for each saved step."""
    T = len(tokens)
    figure = pattern_figure([Panel("", np.full((T, T), np.nan, np.float32))], tokens, words, Window.whole(T))
    return figure.update_layout(meta={**figure.layout.meta, "whole": True})
