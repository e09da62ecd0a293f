"""Shared by the views of sizes and outliers: one survey of the residual stream, and a map with a row to look at."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from model.activations.residual_statistics import Stream, survey
from viz.seam.scene import Scene
from viz.seam.settings import Settings, choice, number
from viz.seam.view import Measure, Payload, Seen
from viz.words import Words

Row = tuple[str, int]  # (what, layer), as model.activations.residual_statistics.statistic names it
_WHATS = ("norm1", "norm2", "final", "attn", "mlp", "block")


def measure_stream(scene: Scene, settings: Settings) -> Stream:
    """Statistics of what every norm reads, and of how far each sublayer moves the stream."""
    return survey(scene.trace)


STREAM = Measure("stream", measure_stream, owner="activations")


def row_of(value: object, scene: Scene) -> Row | None:
    """The row that was clicked in a map; None before any was."""
    if not isinstance(value, Mapping) or "what" not in value:
        return None
    return choice(value, "what", _WHATS), int(number(value, "layer", 0, scene.model.config.n_layer, 0))


def shared(seen: Seen) -> Words:
    """The words that the views of this tab share."""
    return Words(seen.all_words, "activations")


def row_name(words: Words, row: Row) -> str:
    """The name of a row, with its layer. `words`: of `shared`."""
    what, layer = row
    return words[f"row_{what}"].format(layer=layer)


def rows_payload(seen: Seen, figure: go.Figure, rows: Sequence[Row], row: int) -> Payload:
    """The fields of static/views/activations/sizes.js beside a map's figure: its rows, and the one looked at."""
    words = shared(seen)
    return {
        "figure": figure,
        "rows": [list(each) for each in rows],
        "names": [row_name(words, each) for each in rows],
        "row": row,
        "left": figure.layout.meta["window"][2],
        "labels": {name: words[name] for name in ("looked_at", "row_before", "row_after")},
    }
