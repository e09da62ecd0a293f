"""Names of heads assigned by measures, for every list of heads on the page."""

from collections.abc import Mapping
from typing import Any

from model.attention.surveys import LABELS
from viz.numbers import decimals
from viz.seam import panels
from viz.seam.scene import Scene
from viz.theme import HUES
from viz.views.tabs import TABS

Names = Mapping[tuple[int, int], list[tuple[str, float, float]]]  # (layer, head) -> [(label, score, baseline)]


def known(scene: Scene) -> Names:
    """Return the names of the model's heads; empty until a measure that assigns names has run."""
    for view in (view for tab in TABS for view in tab.all_views if view.names_heads):
        result = panels.measured(view, view.names_heads, scene, panels.settings_of(view, scene, {}))
        if result is not None:
            value: Any = result.value
            return value.names
    return {}


def payload(scene: Scene) -> dict[str, list]:
    """Return the names as {"4.1": [[text, score, hue]]}, with a head's highest-scoring name first."""
    return {
        f"{layer}.{head}": [
            [scene.words[f"label.{label}"], decimals(score, 2), HUES[LABELS.index(label)]] for label, score, _ in names
        ]
        for (layer, head), names in known(scene).items()
    }
