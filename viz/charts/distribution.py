"""A prediction as rows of tokens with their probabilities, and in one number."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from viz.labels import visible


def likeliest(logits: np.ndarray, most: int) -> list[int]:
    """The tokens with the largest logits, the largest first, of equals the smaller id first. logits [V]"""
    return [int(number) for number in np.argsort(-logits, kind="stable")[:most]]


def entropy(logits: np.ndarray) -> float:
    """How undecided a prediction is: -sum p ln p of the softmax, in nats, computed in float64. logits [V]"""
    x = logits.astype(np.float64) - logits.max()
    total = np.exp(x).sum()
    return float(np.log(total) - (np.exp(x) * x).sum() / total)


def prediction_rows(table: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """The table of model.effects.next_tokens as plain values, with each token's visible text. Probabilities 0 to 1."""
    columns = ["p_before", "p_after", "logit_before", "logit_after"]
    numbers = table[columns].to_numpy(dtype=np.float64).tolist()
    return [
        {"id": int(number), "text": visible(piece), **dict(zip(columns, row, strict=True))}
        for number, piece, row in zip(table["id"], pieces, numbers, strict=True)
    ]
