"""Statistics of the residual stream and maps with selectable rows, shared by the `sizes` and `outliers` views."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from model.activations.norm_walk import SITES, norms_of
from model.activations.residual_statistics import StreamStatistics, survey
from viz.seam.scene import Scene
from viz.seam.settings import Settings, choice, number
from viz.seam.view import Measure, Payload, Seen
from viz.views.activations.norms import place_name
from viz.words import Words

Row = tuple[str, int]  # (what, layer), as in model.activations.residual_statistics.statistic
_WHATS = (*SITES, "attn", "mlp", "block")


def measure_stream(scene: Scene, settings: Settings) -> StreamStatistics:
    """Compute the statistics of every norm's input and of each sublayer's update to the stream."""
    return survey(scene.trace)


STREAM = Measure("stream", measure_stream, owner="activations")


def row_of(value: object, scene: Scene) -> Row | None:
    """Parse the row that was clicked in a map; None before a click."""
    if not isinstance(value, Mapping) or "what" not in value:
        return None
    return choice(value, "what", _WHATS), int(number(value, "layer", 0, scene.model.config.n_layer, 0))


def shared(seen: Seen) -> Words:
    """Return the words that the views of this tab share."""
    return Words(seen.all_words, "activations")


def row_name(seen: Seen, row: Row) -> str:
    """Format the name of a row with its layer; a norm has the same name in every view."""
    what, layer = row
    if what in SITES:
        return place_name(seen.all_words, seen.facts.config, (layer, what))
    return shared(seen)[f"row_{what}"].format(layer=layer)


def _norm(seen: Seen, row: Row) -> str | None:
    """Return the option that selects a row's norm in the `one_norm` view; None for a row other than a norm."""
    what, layer = row
    places = norms_of(seen.facts.config)
    return str(places.index((layer, what))) if (layer, what) in places else None


def rows_payload(seen: Seen, figure: go.Figure, rows: Sequence[Row], row: int) -> Payload:
    """Build the payload of a map for static/views/activations/sizes.js: figure, rows and the selected row's index."""
    words = shared(seen)
    return {
        "figure": figure,
        "rows": [list(each) for each in rows],
        "names": [row_name(seen, each) for each in rows],
        "row": row,
        "left": figure.layout.meta["window"][2],
        # Selecting a norm here also selects it in the `one_norm` view.
        "opens": {"part": "one_norm_form", "setting": "norm", "options": [_norm(seen, each) for each in rows]},
        "labels": {name: words[name] for name in ("looked_at", "row_before", "row_after")},
    }
