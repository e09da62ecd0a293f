"""Reduction of arrays to a requested length: the largest cells, the strongest heads."""

import numpy as np
import pandas as pd


def largest_cells(z: np.ndarray, limit: int) -> list[tuple[int, int, float]]:
    """Return (row, column, value) of a matrix's largest numbers in decreasing order, ties by position.

    NaN and infinities are excluded. [R, C]
    """
    flat = np.where(np.isfinite(z), z, -np.inf).ravel()
    order = np.argsort(-flat, kind="stable")[:limit]
    return [(int(n // z.shape[1]), int(n % z.shape[1]), float(flat[n])) for n in order if np.isfinite(flat[n])]


def ranked_heads(values: np.ndarray, limit: int, *, size: bool = False) -> list[dict]:
    """List heads with their numbers in decreasing order or, if `size`, in decreasing order of magnitude. [L, H]"""
    ranking = np.abs(values) if size else values
    cells = largest_cells(ranking, limit)
    return [{"layer": layer, "head": head, "value": float(values[layer, head])} for layer, head, _ in cells]


def by_head(values: dict[str, np.ndarray]) -> list[dict]:
    """Build one record per head from several [L, H] arrays."""
    L, H = next(iter(values.values())).shape
    return [
        {"layer": layer, "head": head} | {name: float(z[layer, head]) for name, z in values.items()}
        for layer in range(L)
        for head in range(H)
    ]


def top_of(shares: np.ndarray, limit: int) -> list[int]:
    """Return the indices of the largest numbers in decreasing order, ties by index. [V]"""
    return [int(n) for n in np.argsort(-shares, kind="stable")[:limit]]


def largest_parts(parts: pd.DataFrame, limit: int) -> list[dict]:
    """List the contributions to a logit with the largest magnitudes: kind, layer, head and value, with None instead of
    -1.
    """
    order = parts["value"].abs().sort_values(ascending=False, kind="stable").index[:limit]
    return [
        row | {name: None if row[name] == -1 else row[name] for name in ("layer", "head")}
        for row in parts.loc[order].to_dict("records")
    ]
