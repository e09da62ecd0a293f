"""Padding tokens cut out of attention, by the mask that the model was given."""

from dataclasses import dataclass

import numpy as np
import torch

from model.errors import InputError, Message, say

_MOST_CUT = 1e-3  # weight of a row on padding that is a rounding error


@dataclass(frozen=True, eq=False)
class Cut:
    """Attention without padding."""

    weights: np.ndarray  # [L, H, T, S]
    queries: tuple[str, ...]
    keys: tuple[str, ...] | None
    notes: tuple[Message, ...]


def cut(
    weights: np.ndarray, queries: tuple[str, ...], keys: tuple[str, ...] | None, padding: object, key_padding: object
) -> Cut:
    """Remove the rows and columns of padding. The masks are [T] and [S], 1 for a token, 0 for padding, or None.

    Raises InputError for masks that do not fit, that leave no token, or that hide tokens with weight.
    """
    if keys is None and key_padding is not None:
        raise InputError("key_padding is for keys that are other tokens.", "", "Give padding= instead, or keys=, too.")
    rows = _mask(padding, len(queries), "padding")
    columns = rows if keys is None else _mask(key_padding, len(keys), "key_padding")
    if rows.all() and columns.all():
        return Cut(weights, queries, keys, ())
    left = weights[:, :, rows]
    hidden = np.nan_to_num(left[..., ~columns], nan=0.0).sum(-1)
    if hidden.size and hidden.max() > _MOST_CUT:
        raise InputError(
            "The padding mask hides tokens that have weight.",
            f"{float(hidden.max()):.3g}",
            "Give the attention_mask of the same run: 1 for a token, 0 for padding.",
        )
    n = int((~rows).sum()) + (0 if keys is None else int((~columns).sum()))
    return Cut(
        np.ascontiguousarray(left[..., columns]),
        _kept(queries, rows),
        None if keys is None else _kept(keys, columns),
        (say("{} padding tokens are cut.", n),),
    )


def _mask(padding: object, n: int, name: str) -> np.ndarray:
    """Return a mask as booleans. Raises InputError unless it has n entries of 0 and 1, and some 1."""
    if padding is None:
        return np.ones(n, bool)
    array = padding.detach().cpu().numpy() if isinstance(padding, torch.Tensor) else np.asarray(padding)
    hint = say("Give {} numbers, 1 for a token and 0 for padding.", n)
    array = array.reshape(-1) if array.size == n else array
    if array.shape != (n,):
        raise InputError(say("{} does not fit the tokens.", name), str(list(array.shape)), hint)
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise InputError(say("{} has other values than 0 and 1.", name), str(array.dtype), hint)
    if not array.any():
        raise InputError(say("{} leaves no token.", name), "", hint)
    return array.astype(bool)


def _kept(texts: tuple[str, ...], mask: np.ndarray) -> tuple[str, ...]:
    return tuple(text for text, kept in zip(texts, mask, strict=True) if kept)
