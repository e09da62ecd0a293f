"""Which tokens are largest, and which place a token has; of equals the smaller id always comes first."""

import numpy as np
import torch
from torch import Tensor


def top_ids(logits: Tensor, top: int) -> Tensor:
    """The largest first, of equals the smaller id first. [..., V] -> [..., top]"""
    values, ids = logits.topk(min(top + 1, logits.shape[-1]))
    if values.shape[-1] > top:
        tied = values[..., top - 1] == values[..., top]  # one that was left out may be a smaller id
        ids = ids[..., :top]
        if tied.any():
            ids[tied] = logits[tied].sort(dim=-1, descending=True, stable=True).indices[..., :top]
    ids = ids.sort(dim=-1).values
    return ids.gather(-1, logits.gather(-1, ids).argsort(dim=-1, descending=True, stable=True))


def ranks_of(logits: Tensor, ids: Tensor) -> Tensor:
    """Places of tokens among all, 1 for the largest, of equals the smaller id first. [..., V], [..., C] -> [..., C]"""
    rows, tokens = logits.flatten(0, -2).numpy(), ids.flatten(0, -2).tolist()
    ranks = [
        [np.count_nonzero(row[:token] >= row[token]) + np.count_nonzero(row[token:] > row[token]) + 1 for token in some]
        for row, some in zip(rows, tokens, strict=True)
    ]
    return torch.tensor(ranks, dtype=torch.int32).view(ids.shape)
