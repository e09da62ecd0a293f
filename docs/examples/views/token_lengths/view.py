"""How long the tokens of the prompt are: a view small enough to begin with."""

from dataclasses import dataclass

import numpy as np
from outside_views.token_lengths.figures import lengths_figure

from viz.numbers import number
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Measure, Payload, Seen, View

UNIT = Choice("unit", ("bytes", "characters"))


@dataclass(frozen=True, eq=False)
class Lengths:
    """How long each token is."""

    lengths: np.ndarray  # int64 [T]


def measure(scene: Scene, settings: Settings) -> Lengths:
    """The lengths of the prompt's tokens in bytes, or in characters of their texts."""
    tokens = scene.tokens
    texts = tokens.raw if settings.unit == "bytes" else tokens.pieces
    return Lengths(np.array([len(text) for text in texts], dtype=np.int64))


def lengths(seen: Seen) -> Payload:
    """A bar a token."""
    words, found = seen.here, seen.result.lengths
    texts = "run.tokens.raw" if seen.settings.unit == "bytes" else "run.tokens.pieces"
    return {
        "title": words["title"],
        "note": words["note"].format(mean=number(float(found.mean()))),
        "figure": lengths_figure(found, seen.facts.pieces, words),
        "columns": [words["token"], words["position"], words["length"]],
        "python": script(seen.facts, [f"[len(text) for text in {texts}]"]),
    }


VIEW = View(
    "token_lengths",
    settings=(UNIT,),
    measures=(Measure("main", measure, depends=("plain",), settings=("unit",), locks=False),),
    layout=("form", "lengths"),
    parts={"lengths": Figure(lengths)},
)
