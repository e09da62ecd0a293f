"""The tokens with the largest logits, and the ranks of given tokens; ties are broken by the smaller id."""

import numpy as np
import torch
from torch import Tensor


def top_ids(logits: Tensor, top: int) -> Tensor:
    """Return the ids of the largest logits in decreasing order, ties by the smaller id. [..., V] -> [..., top]"""
    values, ids = logits.topk(min(top + 1, logits.shape[-1]))
    if values.shape[-1] > top:
        tied = values[..., top - 1] == values[..., top]  # an excluded token may have a smaller id
        ids = ids[..., :top]
        if tied.any():
            ids[tied] = logits[tied].sort(dim=-1, descending=True, stable=True).indices[..., :top]
    ids = ids.sort(dim=-1).values
    return ids.gather(-1, logits.gather(-1, ids).argsort(dim=-1, descending=True, stable=True))


def ranks_of(logits: Tensor, ids: Tensor) -> Tensor:
    """Compute the ranks of the given tokens among all, 1 for the largest, ties by the smaller id. [..., V], [..., C]
    -> [..., C]
    """
    rows, tokens = logits.flatten(0, -2).numpy(), ids.flatten(0, -2).tolist()
    ranks = [
        [np.count_nonzero(row[:token] >= row[token]) + np.count_nonzero(row[token:] > row[token]) + 1 for token in some]
        for row, some in zip(rows, tokens, strict=True)
    ]
    return torch.tensor(ranks, dtype=torch.int32).view(ids.shape)
