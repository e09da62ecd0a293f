"""Rows for a prediction: tokens with their probabilities, and the entropy."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from viz.labels import visible
from viz.numbers import BIT, bits, difference, logit, nats, percent


def likeliest(logits: np.ndarray, limit: int) -> list[int]:
    """Return the ids of the tokens with the largest logits in decreasing order, ties by the smaller id. logits [V]"""
    return [int(number) for number in np.argsort(-logits, kind="stable")[:limit]]


def entropy(logits: np.ndarray) -> float:
    """Compute the entropy of a prediction, -sum p ln p of the softmax, in nats and float64. logits [V]"""
    x = logits.astype(np.float64) - logits.max()
    total = np.exp(x).sum()
    return float(np.log(total) - (np.exp(x) * x).sum() / total)


def prediction_rows(table: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """Convert the table of model.attention.effects.next_tokens for the page, with each token's visible text.

    Probabilities range from 0 to 1. "texts" holds the formatted numbers, with "change" in percentage points.
    """
    columns = ["p_before", "p_after", "logit_before", "logit_after"]
    numbers = table[columns].to_numpy(dtype=np.float64).tolist()
    rows = []
    for number, piece, values in zip(table["id"], pieces, numbers, strict=True):
        named = dict(zip(columns, values, strict=True))
        texts = {name: (percent if name[0] == "p" else logit)(value) for name, value in named.items()}
        texts["change"] = difference(100 * (named["p_after"] - named["p_before"]), places=2)
        rows.append({"id": int(number), "text": visible(piece), **named, "texts": texts})
    return rows


def moved(entropies: Sequence[float], kl: float) -> dict:
    """Build the payload of a prediction's entropy before and after a change, and of the KL divergence, raw and
    formatted.

    `entropies` holds both entropies in nats, which the page gets in bits. `kl` is in nats.
    """
    before, after = (each / BIT for each in entropies)
    texts = {"before": bits(before), "after": bits(after), "kl": nats(kl)}
    return {"entropy": [before, after], "kl": kl, "texts": texts}
