"""A prediction as rows of tokens with their probabilities, and in one number."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from viz.labels import visible
from viz.numbers import BIT, bits, difference, logit, nats, percent


def likeliest(logits: np.ndarray, limit: int) -> list[int]:
    """Return the tokens with the largest logits, the largest first, of equals the smaller id first. logits [V]"""
    return [int(number) for number in np.argsort(-logits, kind="stable")[:limit]]


def entropy(logits: np.ndarray) -> float:
    """How undecided a prediction is: -sum p ln p of the softmax, in nats, computed in float64. logits [V]"""
    x = logits.astype(np.float64) - logits.max()
    total = np.exp(x).sum()
    return float(np.log(total) - (np.exp(x) * x).sum() / total)


def prediction_rows(table: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """Return the table of model.attention.effects.next_tokens for the page, with each token's visible text.

    Probabilities are 0 to 1. "texts" holds the numbers as they are read, "change" that of the probability in points.
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
    """How undecided a prediction was and is, and how far it moved, for the page, and as they are read.

    entropies: before and after, in nats; the page gets bits. kl: in nats.
    """
    before, after = (each / BIT for each in entropies)
    texts = {"before": bits(before), "after": bits(after), "kl": nats(kl)}
    return {"entropy": [before, after], "kl": kl, "texts": texts}
