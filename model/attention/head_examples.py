"""The best example of each named head: the token of a text at which the head shows its behavior most clearly."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pandas as pd
import torch
from torch import Tensor

from model.tracing.head_metrics import Repeats, RowStats

# The statistic of a row that each name is about, a field of RowStats.
_STATISTICS = {
    "previous_token": "previous",
    "self": "own",
    "first_token": "first",
    "duplicate_token": "duplicate",
    "induction": "induction",
}
_FIELDS = [field.name for field in fields(RowStats)]


@dataclass(frozen=True)
class HeadExample:
    """A token of a text, the keys that a behavior is about, and the head's total attention weight on them."""

    text: int  # number of the text
    query: int
    keys: tuple[int, ...]
    weight: float


def keys_of(label: str, query: int, repeats: Repeats) -> tuple[int, ...]:
    """Return the keys to which a head with this name attends at a query; empty if the row has none."""
    if label == "self":
        return (query,)
    if label in ("previous_token", "first_token"):
        return ((query - 1 if label == "previous_token" else 0),) if query else ()
    shift = 1 if label == "induction" else 0
    keys = repeats.key[repeats.query == query] + shift
    return tuple(keys[keys < query].tolist())


def best_examples(
    rows: Sequence[Tensor], repeats: Sequence[Repeats], labels: pd.DataFrame
) -> dict[tuple[int, int, str], HeadExample]:
    """Find the best example of each head and name: the row where the weight most exceeds that of uniform attention.

    The first token of a text is left out because it can only attend to itself, and so are rows without such keys. A
    name without any such row has no entry. rows [statistics, L, H, T] per text, as HeadReducer.rows; `labels` as
    surveys.labels returns it, indexed by (layer, head).
    """
    places = [(text, query) for text, each in enumerate(repeats) for query in range(each.T)]
    found = {}
    for label, heads in labels.groupby("label"):
        keys = [keys_of(label, query, repeats[text]) if query else () for text, query in places]
        uniform = torch.tensor([len(each) / (query + 1) for each, (_, query) in zip(keys, places, strict=True)])
        weights = torch.cat([each[_FIELDS.index(_STATISTICS[label])] for each in rows], dim=-1)  # [L, H, all rows]
        excess = (weights - uniform).masked_fill(torch.tensor([not each for each in keys]), -torch.inf)
        for layer, head in heads.index:
            best = int(excess[layer, head].argmax())
            if keys[best]:
                example = HeadExample(*places[best], keys[best], float(weights[layer, head, best]))
                found[int(layer), int(head), str(label)] = example
    return found
