"""A steering vector: what it does at every layer, beside random directions of its length, and the texts that follow."""

from dataclasses import dataclass

import numpy as np

from model.errors import InputError, say
from model.gpt.edits import MAX_FACTOR, STREAM_SITES
from model.progress import Progress
from model.steering.effects import Moved, SteeringSweep, projections, steering_sweep, sweep_cost, tokens_moved
from model.steering.texts import SteeredText, steered_texts
from model.steering.vectors import random_directions
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Number, Settings, Text
from viz.seam.typed import ids_of
from viz.seam.view import Measure
from viz.views.effects.steering.sources import NAMES, SOURCE_SETTINGS, USED, positions_of, token_id, vectors_of

FACTORS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
DRAWS, TOP, MOST_WATCHED = 4, 12, 16
WATCHED = "happy proud glad fun better"
TEXT_FACTORS, MOST_FACTORS, TOKENS = "-2 -1 0 1 2", 8, 24
_MORE = {"more": (True,)}
_PLACE = ("site", "positions", "frozen")


def _last(scene: Scene) -> int:
    return scene.model.config.n_layer - 1


SETTINGS = (
    *SOURCE_SETTINGS,
    Text("watch", WATCHED, max_length=200),
    Number("layer", 0, _last, lambda scene: scene.model.config.n_layer // 2),
    Number("factor", FACTORS[0], FACTORS[-1], 1.0, step=0.5),
    Checkbox("more"),
    Choice("site", STREAM_SITES, default="resid_post", when=_MORE),
    Text("positions", "", max_length=200, when=_MORE),
    Checkbox("frozen", when=_MORE),
    Text("factors", TEXT_FACTORS, max_length=100, when=_MORE),
    Number("seed", 0, 10_000, 0, when=_MORE),
)
_SWEPT = (*NAMES, "watch", "more", *_PLACE)
_WRITTEN = (*NAMES, "watch", "more", "site", "positions", "layer", "factors", "seed")


@dataclass(frozen=True, eq=False)
class Steering:
    """The vector of each layer, and its effects on the prompt."""

    vectors: np.ndarray  # one for the stream at each layer, float32 [L, D]
    moved: tuple[Moved, ...]  # tokens that each layer's vector raises and lowers
    along: np.ndarray  # component of every token's stream along the layer's vector, [L, T]
    watched: tuple[int, ...]  # ids of the watched words
    token: int | None  # id of the token whose vector it is
    sweep: SteeringSweep


@dataclass(frozen=True, eq=False)
class Texts:
    """Continuations with the vector and with a random direction of its length, one of each for every factor."""

    own: tuple[SteeredText, ...]
    random: tuple[SteeredText, ...]


def watched_ids(scene: Scene, text: str) -> tuple[int, ...]:
    """Return the first token of each watched word, with a space before it. Raises InputError if no word is given."""
    words = text.split()[:MOST_WATCHED]
    ids = [ids_of(scene.model, f" {word}")[:1] for word in words]
    if not (found := tuple(dict.fromkeys(each[0] for each in ids if each))):
        raise InputError("There is no word to watch.", "", "Write one or several words, separated by spaces.")
    return found


def factors_of(text: str) -> tuple[float, ...]:
    """Read the factors of the texts. Raises InputError for what is not a number, too many, and too large ones."""
    try:
        found = tuple(dict.fromkeys(float(part) for part in text.replace("−", "-").replace(",", " ").split()))
    except ValueError:
        raise InputError("This is not a number.", text[:40], "Separate the numbers by spaces or commas.") from None
    if not 0 < len(found) <= MOST_FACTORS or any(not abs(each) <= MAX_FACTOR for each in found):
        hint = say("Give 1 to {} numbers from -100 to 100.", MOST_FACTORS)
        raise InputError("These factors cannot be used.", text[:40], hint)
    return found


def question(scene: Scene, settings: Settings) -> Settings:
    """Replace the settings that are not used here by their defaults."""
    used = {"source", *USED[settings.source]}
    if settings.more:
        used |= {*_PLACE, "factors", "seed"}
    settings = placed(settings)
    defaults = {each.name: each.read(None, scene) for each in SETTINGS}
    unused = {name: defaults[name] for name, _ in settings.items_ if name in (*NAMES, *_PLACE, "factors", "seed")}
    return settings.but(**{name: value for name, value in unused.items() if name not in used} | {"more": False})


def placed(settings: Settings) -> Settings:
    """Return the settings with site, positions and frozen attention as they apply: the usual ones unless unfolded."""
    if settings.more:
        return settings
    usual = {"site": "resid_post", "positions": "", "frozen": False, "factors": TEXT_FACTORS, "seed": 0}
    return settings.but(**{name: value for name, value in usual.items() if name in settings})


def measure(scene: Scene, settings: Settings, progress: Progress) -> Steering:
    """Compute the vectors, and sweep layers and factors on the prompt without the active edits."""
    lm, run = scene.model, scene.unedited
    watched, positions = watched_ids(scene, settings.watch), positions_of(settings.positions)
    vectors = vectors_of(scene, settings, settings.site)
    moved = tuple(tokens_moved(lm.model, vector, TOP, lm.tokenizer.vocab_size) for vector in vectors)
    layers = range(lm.config.n_layer)
    swept = steering_sweep(
        run,
        vectors,
        list(layers),
        FACTORS,
        watched,
        site=settings.site,
        positions=positions,
        draws=DRAWS,
        frozen=settings.frozen,
        progress=progress,
    )
    token = token_id(scene, settings.token) if settings.source == "token" else None
    return Steering(vectors, moved, projections(run, vectors, settings.site), watched, token, swept)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens."""
    L = scene.model.config.n_layer
    runs, tokens = sweep_cost(L, range(L), len(FACTORS) * (1 + DRAWS), len(scene.tokens))
    pairs = settings.pairs.count("|") if settings.source == "pairs" else 1
    return runs + 2 * pairs, tokens + len(settings.pairs) / 4


def write(scene: Scene, settings: Settings, progress: Progress) -> Texts:
    """Continue the prompt under every factor, with the vector and with a random direction of its length."""
    lm, factors = scene.model, factors_of(settings.factors)
    layer, ids = settings.layer, scene.unedited.tokens.ids.tolist()
    vector = vectors_of(scene, settings, settings.site)[layer]
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not length:
        raise InputError("The vector has length 0 in this layer.", f"layer {layer}", "Choose another layer or source.")
    (random,) = random_directions(len(vector), length, 1, settings.seed)
    made = []
    for done, direction in enumerate((vector, random)):
        made.append(
            steered_texts(
                lm,
                ids,
                direction,
                layer,
                factors,
                words=settings.watch.split()[:MOST_WATCHED],
                site=settings.site,
                positions=positions_of(settings.positions),
                tokens=TOKENS,
                seed=settings.seed,
                progress=lambda at, _, what, done=done: progress(done * len(factors) + at, 2 * len(factors), what),
            )
        )
    return Texts(*made)


MAIN = Measure("main", measure, ("plain",), _SWEPT, question=question, slow=True, cost=cost)
TEXTS = Measure("texts", write, ("plain",), _WRITTEN, question=question, slow=True)
MEASURES = (MAIN, TEXTS)
