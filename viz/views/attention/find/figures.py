"""Find the head: parsing of positions, ranking of heads, and the grid of all heads."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import axis, figure
from viz.labels import plotly_text
from viz.theme import scales

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


def heads_figure(values: np.ndarray, words: Mapping[str, str], kind: str) -> go.Figure:
    """Draw the grid of heads with exact values on hover, layers on the x axis and heads on the y axis. values [L, H]

    The color scale ends at 1 for the `kind` "share", and at the maximum for "size". `words`: "layer", "head", "name"
    ("head {layer}.{head}"), "measure".
    """
    layers, heads = values.shape
    top = 1.0 if kind == "share" else float(np.nanmax(values, initial=0)) or 1.0
    name = plotly_text(words["name"]).format(layer="%{x}", head="%{y}")
    heat = go.Heatmap(
        z=values.T,
        x=list(range(layers)),
        y=list(range(heads)),
        coloraxis="coloraxis",
        hoverongaps=False,
        hovertemplate=f"{name}: %{{z:.4f}}<extra></extra>",
        xgap=1,
        ygap=1,
    )
    ramps, height = scales(kind, "sqrt"), min(max(110 + 24 * heads, 220), 520)
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickvals": [share * top for share in (0, 0.05, 0.25, 0.5, 1)]}
    bar |= {"title": {"text": plotly_text(words["measure"]), "side": "right"}, "tickformat": ".3~g"}
    return figure(
        [heat],
        axis(words["layer"], _integer_axis(layers) | {"range": [-0.5, layers - 0.5]}),
        axis(words["head"], _integer_axis(heads) | {"range": [heads - 0.5, -0.5]}),
        height=height,
        meta={"scales": ramps, "heads": True},
        more={"coloraxis": {"cmin": 0, "cmax": top, "colorbar": bar}},
    )


def _integer_axis(count: int) -> dict:
    """Build the options of an axis of integers."""
    return {"tickmode": "linear", "tick0": 0, "dtick": 1 if count <= 16 else 4, "showgrid": False}
