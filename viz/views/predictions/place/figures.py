"""The three grids of a placed vector: tokens and numbers of every cell, as the page's script reads them."""

from collections.abc import Sequence

import numpy as np

from viz.charts.packed import packed
from viz.labels import visible
from viz.views.predictions.lens.figures import LensGrid, Texts, table_payload


def grid_payload(
    reading: LensGrid, pieces: Sequence[str], text: Texts, cell: tuple[int, int], values: np.ndarray, top: float
) -> dict:
    """Build the data of one grid: the lens's table, its columns, the picked cell, and the values that color it.

    `values` [K, P] run from 0 to `top`.
    """
    T = len(pieces)
    columns = [
        {"text": visible(pieces[at]), "next": visible(pieces[at + 1]) if at + 1 < T else ""}
        for at in reading.positions.tolist()
    ]
    return table_payload(reading, text) | {
        "columns": columns,
        "cell": list(cell),
        "values": packed(values.astype(np.float32)),
        "top": top,
        "last": T - 1,
    }
