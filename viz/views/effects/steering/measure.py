"""A steering vector from pairs of texts: what it does at every layer, beside random directions of its length."""

from dataclasses import dataclass

import numpy as np

from model.errors import InputError, say
from model.progress import Progress
from model.steering.effects import Moved, SteeringSweep, projections, steering_sweep, sweep_cost, tokens_moved
from model.steering.vectors import MOST_PAIRS, READS, pair_vectors
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.typed import ids_of
from viz.seam.view import Measure

FACTORS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
DRAWS, TOP, MOST_WATCHED = 4, 12, 16
EXAMPLE = """Tom was very happy | Tom was very sad
Lily smiled and felt happy | Lily cried and felt sad
It was a happy day | It was a sad day
The happy girl | The sad girl"""
WATCHED = "happy proud glad excited better"


def _last(scene: Scene) -> int:
    return scene.model.config.n_layer - 1


SETTINGS = (
    Text("pairs", EXAMPLE, max_length=4000, lines=2),
    Text("watch", WATCHED, max_length=200),
    Choice("read", READS),
    Number("layer", 0, _last, lambda scene: scene.model.config.n_layer // 2),
    Number("factor", FACTORS[0], FACTORS[-1], 1.0, step=0.5),
)


@dataclass(frozen=True, eq=False)
class Steering:
    """The vector of each layer, and its effects on the prompt."""

    vectors: np.ndarray  # stream after each layer, first texts minus second, float32 [L, D]
    moved: tuple[Moved, ...]  # tokens that each layer's vector raises and lowers
    along: np.ndarray  # component of every token's stream along the layer's vector, [L, T]
    watched: tuple[int, ...]  # ids of the watched words
    sweep: SteeringSweep


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Read pairs of texts, one per line, with | between both. Raises InputError for a line without two texts."""
    pairs = []
    for line in filter(str.strip, text.splitlines()):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 2 or not all(parts):
            hint = "Write a text, then |, then its opposite."
            raise InputError("A line of the pairs does not have two texts.", line[:40], hint)
        pairs.append((parts[0], parts[1]))
    if not 0 < len(pairs) <= MOST_PAIRS:
        hint = say("Give 1 to {} lines.", MOST_PAIRS)
        raise InputError("Steering needs pairs of texts.", f"{len(pairs)}", hint)
    return pairs


def watched_ids(scene: Scene, text: str) -> tuple[int, ...]:
    """Return the first token of each watched word, with a space before it. Raises InputError if no word is given."""
    words = text.split()[:MOST_WATCHED]
    ids = [ids_of(scene.model, f" {word}")[:1] for word in words]
    if not (found := tuple(dict.fromkeys(each[0] for each in ids if each))):
        raise InputError("There is no word to watch.", "", "Write one or several words, separated by spaces.")
    return found


def measure(scene: Scene, settings: Settings, progress: Progress) -> Steering:
    """Compute the vectors, and sweep layers and factors on the prompt without the active edits."""
    lm, run = scene.model, scene.unedited
    pairs, watched = pairs_of(settings.pairs), watched_ids(scene, settings.watch)
    vectors = pair_vectors(lm, pairs, read=settings.read)
    moved = tuple(tokens_moved(lm.model, vector, TOP, lm.tokenizer.vocab_size) for vector in vectors)
    layers = range(lm.config.n_layer)
    swept = steering_sweep(run, vectors, list(layers), FACTORS, watched, draws=DRAWS, progress=progress)
    return Steering(vectors, moved, projections(run, vectors), watched, swept)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens."""
    L = scene.model.config.n_layer
    runs, tokens = sweep_cost(L, range(L), len(FACTORS) * (1 + DRAWS), len(scene.tokens))
    pairs = settings.pairs.count("|")
    return runs + 2 * pairs, tokens + len(settings.pairs) / 4


MEASURES = (Measure("main", measure, ("plain",), ("pairs", "watch", "read"), slow=True, cost=cost),)
