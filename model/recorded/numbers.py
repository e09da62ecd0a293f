"""Numbers of each head of attention that was computed elsewhere, for each kind of mask.

For causal attention these are the metrics of the page (model.tracing.head_metrics) and `largest` and `special_tokens`.
For two-way attention and for cross-attention, only what is defined there. A_ij is the weight of query i on key j.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.recorded.readable import is_special
from model.recorded.record import AttentionRecord
from model.tracing.head_metrics import HEAD_METRICS, Repeats, find_repeats, head_metrics, rows_from_pattern


@dataclass(frozen=True, eq=False)
class Given:
    """The attention of a layer with its tokens."""

    A: Tensor  # [H, T, S]
    queries: Sequence[str]  # [T]
    keys: Sequence[str]  # [S]


def entropy(of: Given) -> Tensor:
    """Return the mean over i of -sum_j A_ij ln A_ij / ln S, a share of the maximum. [H]; NaN for a single key"""
    return torch.special.entr(of.A).sum(-1).mean(-1) / float(np.log(len(of.keys)) or np.nan)


def effective_span(of: Given) -> Tensor:
    """Return the mean over i of exp(-sum_j A_ij ln A_ij): the number of keys that the head effectively reads. [H]"""
    return torch.special.entr(of.A).sum(-1).exp().mean(-1)


def largest(of: Given) -> Tensor:
    """Return the mean over i of max_j A_ij. [H]"""
    return of.A.amax(-1).mean(-1)


def own(of: Given) -> Tensor:
    """Return the mean over i of A_ii. [H]"""
    return of.A.diagonal(dim1=1, dim2=2).mean(-1)


def previous_token(of: Given) -> Tensor:
    """Return the mean over i > 0 of A_i,i-1. [H]; NaN for a single token"""
    return of.A.diagonal(-1, dim1=1, dim2=2).mean(-1)


def next_token(of: Given) -> Tensor:
    """Return the mean over i < T - 1 of A_i,i+1. [H]; NaN for a single token"""
    return of.A.diagonal(1, dim1=1, dim2=2).mean(-1)


def first_token(of: Given) -> Tensor:
    """Return the mean over i of A_i0. [H]"""
    return of.A[:, :, 0].mean(-1)


def last_token(of: Given) -> Tensor:
    """Return the mean over i of the weight on the last key. [H]"""
    return of.A[:, :, -1].mean(-1)


def distance(of: Given) -> Tensor:
    """Return the mean over i of sum_j A_ij |i - j|, tokens. [H]"""
    T = of.A.shape[1]
    at = torch.arange(T, dtype=of.A.dtype)
    return (of.A * (at[:, None] - at[None, :]).abs()).sum(-1).mean(-1)


def other_copies(of: Given) -> Tensor:
    """Return the weight on other tokens of the same text, earlier or later: the mean over the queries that have one,
    special tokens aside. [H]; NaN without a repeated token
    """
    same = _same(of.queries, of.keys)
    same.fill_diagonal_(False)
    return _on(of.A, same)


def same_text(of: Given) -> Tensor:
    """Return the weight on keys of the query's text: the mean over the queries that have one. [H]; NaN without any"""
    return _on(of.A, _same(of.queries, of.keys))


def special_tokens(of: Given) -> Tensor:
    """Return the mean over i of the weight on special keys, such as [CLS], [SEP] or </s>. [H]; NaN without any"""
    special = torch.tensor([is_special(key.strip()) for key in of.keys])
    return of.A[:, :, special].sum(-1).mean(-1) if special.any() else torch.full((len(of.A),), torch.nan)


def _same(queries: Sequence[str], keys: Sequence[str]) -> Tensor:
    """Return which queries and keys have the same text, special tokens aside. [T, S] bool"""
    numbers: dict[str, int] = {}
    rows = torch.tensor([numbers.setdefault(text.strip(), len(numbers)) for text in queries])
    columns = torch.tensor([numbers.setdefault(text.strip(), len(numbers)) for text in keys])
    plain = torch.tensor([not is_special(text.strip()) for text in queries])
    return (rows[:, None] == columns[None, :]) & plain[:, None]


def _on(A: Tensor, chosen: Tensor) -> Tensor:
    """Average the weight on the chosen cells over the rows that have one. [H, T, S], [T, S] -> [H]"""
    return (A * chosen).sum(-1)[:, chosen.any(-1)].mean(-1)


@dataclass(frozen=True)
class HeadNumber:
    """A number per head. `function` is None for the metrics of model.tracing.head_metrics."""

    unit: str  # "share" from 0 to 1, or "tokens"
    function: Callable[[Given], Tensor] | None


_SPREAD = {
    "entropy": HeadNumber("share", entropy),
    "effective_span": HeadNumber("tokens", effective_span),
    "largest": HeadNumber("share", largest),
}
_SPECIAL = {"special_tokens": HeadNumber("share", special_tokens)}
# By the kind of mask; the words of the page have a label and an explanation for each.
NUMBERS: dict[str, dict[str, HeadNumber]] = {
    "causal": {
        name: HeadNumber("tokens" if each.unit == "tokens" else "share", None) for name, each in HEAD_METRICS.items()
    }
    | {"largest": _SPREAD["largest"]}
    | _SPECIAL,
    "two-way": _SPREAD
    | {
        "self": HeadNumber("share", own),
        "previous_token": HeadNumber("share", previous_token),
        "next_token": HeadNumber("share", next_token),
        "first_token": HeadNumber("share", first_token),
        "distance": HeadNumber("tokens", distance),
        "other_copies": HeadNumber("share", other_copies),
    }
    | _SPECIAL,
    "cross": _SPREAD
    | {
        "first_token": HeadNumber("share", first_token),
        "last_token": HeadNumber("share", last_token),
        "same_text": HeadNumber("share", same_text),
    }
    | _SPECIAL,
}


def numbers(record: AttentionRecord) -> pd.DataFrame:
    """Return the numbers of all heads, indexed by (layer, head). Those of a head with an undefined row are NaN, and
    those that are NaN for every head, for example without repeated tokens, are left out.
    """
    names = NUMBERS[record.mask]
    table = np.concatenate([_of_layer(record, layer) for layer in record.weights])
    L, H = record.weights.shape[:2]
    table[(record.weights.reshape(L * H, -1, record.weights.shape[-1]).sum(-1) == 0).any(-1)] = np.nan
    first = record.first_layer
    index = pd.MultiIndex.from_product([range(first, first + L), range(H)], names=["layer", "head"])
    frame = pd.DataFrame(table, index=index, columns=list(names))
    return frame.dropna(axis="columns", how="all")


def _of_layer(record: AttentionRecord, weights: np.ndarray) -> np.ndarray:
    """Compute the numbers of a layer's heads. [H, T, S] -> float32 [H, numbers]"""
    A = torch.from_numpy(weights)
    given = Given(A, record.queries, record.key_tokens)
    metrics: dict[str, Tensor] = {}
    if record.mask == "causal":
        repeats = _repeats(record.queries)
        metrics = dict(zip(HEAD_METRICS, head_metrics(rows_from_pattern(A, repeats), repeats).T, strict=True))
    columns = [each.function(given) if each.function else metrics[name] for name, each in NUMBERS[record.mask].items()]
    return torch.stack(columns, -1).numpy()


def _repeats(texts: Sequence[str]) -> Repeats:
    """Find all pairs of equal tokens by their texts."""
    numbered: dict[str, int] = {}
    ids = torch.tensor([numbered.setdefault(text, len(numbered)) for text in texts])
    return find_repeats(ids)
