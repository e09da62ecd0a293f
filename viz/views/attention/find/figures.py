"""Find the head: parsing of positions, ranking of heads, and the grid of all heads."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.layer_head_map import HeadWords, head_figure
from viz.labels import plotly_text

SHOWN = 12  # maximum number of heads in the list


def positions_of(value: object, T: int) -> tuple[int, ...] | None:
    """Parse a list of positions among T tokens, sorted and without duplicates; None if the value is not a list."""
    if not isinstance(value, list):
        return None
    return tuple(sorted({at for at in value if type(at) is int and 0 <= at < T}))


def ranked(values: np.ndarray, limit: int = SHOWN) -> list[dict]:
    """Return the heads with the largest finite values in decreasing order, ties by layer and head. values [L, H]"""
    order = np.argsort(-values.ravel(), kind="stable")[:limit]
    heads = [divmod(int(n), values.shape[1]) for n in order if np.isfinite(values.flat[n])]
    return [{"head": [layer, head], "value": float(values[layer, head])} for layer, head in heads]


def even_share(queries: Sequence[int], keys: Sequence[int]) -> float:
    """Compute the mean weight on the keys under uniform attention of every query to its visible tokens."""
    return float(np.mean([sum(key <= query for key in keys) / (query + 1) for query in queries]))


def heads_figure(values: np.ndarray, words: HeadWords, kind: str) -> go.Figure:
    """Draw the grid of heads with exact values on hover. values [L, H]

    The color scale ends at 1 for the `kind` "share", and at the maximum for "size".
    """
    figure = head_figure(values, words, f"{plotly_text(words.value)}: %{{z:.4f}}", signed=False)
    top = 1.0 if kind == "share" else figure.layout.coloraxis.cmax
    ticks = [share * top for share in (0, 0.05, 0.25, 0.5, 1)]
    return figure.update_layout(coloraxis={"cmax": top, "colorbar": {"tickvals": ticks, "tickformat": ".3~g"}})
