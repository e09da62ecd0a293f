"""Payloads of the fine-tuning view: per-token losses, and snapshots of a run."""

from collections.abc import Mapping, Sequence

import numpy as np

from viz.labels import visible
from viz.numbers import nats, plain
from viz.theme import RAMPS

MOST = 6.0  # upper end of the color ramp, in nats


def tokens_payload(pieces: Sequence[str], prompt: int) -> dict:
    """Build the payload of an example's tokens; the first `prompt` tokens are the prompt. pieces [T]"""
    breaks = [at for at, piece in enumerate(pieces) if piece.endswith("\n")]
    return {"tokens": [visible(piece) for piece in pieces], "breaks": breaks, "prompt": prompt}


def losses_payload(pieces: Sequence[str], prompt: int, losses: np.ndarray, words: Mapping[str, str]) -> dict:
    """Build the payload of an example's tokens with their losses in nats; the first token has no loss.

    pieces [T], losses [T - 1]
    """
    values = [None, *(plain(float(each)) for each in losses)]
    scored = losses[max(prompt - 1, 0) :]
    return tokens_payload(pieces, prompt) | {
        "losses": values,
        "mean": nats(float(scored.mean())) if len(scored) else "",
        "most": MOST,
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
        "words": dict(words),
    }


def snapshot_payload(snapshot) -> dict:
    """Build the payload of one snapshot of a run. Non-finite values become None."""
    return {
        "step": snapshot.step,
        "loss": plain(snapshot.loss),
        "train": plain(snapshot.train_loss),
        "accuracy": plain(snapshot.accuracy),
        "bits": plain(snapshot.bits_per_byte),
        "losses": [None, *(plain(float(each)) for each in snapshot.losses)],
        "answers": [list(each) for each in snapshot.answers],
    }
