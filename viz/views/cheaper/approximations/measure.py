"""Measurements of the approximations: one head under the selected method and under all, and the whole model."""

from collections.abc import Mapping
from typing import Any

from model.attention.approximations import measure as heads
from model.attention.approximations import whole_model
from model.attention.approximations.measure import Approximation, Sweep
from model.attention.approximations.ways import METHODS, PROJECTIONS, Way
from model.attention.approximations.whole_model import Experiment
from model.gpt.mixers.needs import need_attention
from model.progress import Progress
from model.quantization.texts import held_out_ids
from model.tracing.trace import HeadQKV
from viz.numbers import whole
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Number, Settings
from viz.words import Words

ON, ERRORS = ("text", "prompt"), ("output", "rows")
MOST = 256  # maximum number of tokens on which the whole model is measured
MOST_SEED = 999
SIZES = {method: tuple(map(str, sizes)) for method, sizes in heads.SIZES.items()}
# Name of the setting that holds the size of each method.
SIZE_NAMES = {"performer": "features", "linformer": "projected", "nystrom": "landmarks"}


def _whole(words: Words, option: str) -> str:
    return whole(int(option))


def _only(*methods: str) -> dict[str, tuple]:
    return {"method": methods}


SETTINGS = (
    Choice("method", METHODS),
    Choice("features", SIZES["performer"], "64", when=_only("performer"), label=_whole),
    Checkbox("orthogonal", when=_only("performer")),
    Choice("projected", SIZES["linformer"], "16", when=_only("linformer"), label=_whole),
    Choice("projection", PROJECTIONS, when=_only("linformer")),
    Choice("landmarks", SIZES["nystrom"], "8", when=_only("nystrom"), label=_whole),
    Number("seed", 0, MOST_SEED, 0, when=_only("performer", "linformer")),
    Choice("error", ERRORS),
    Choice("on", ON),
)
OF_WAY = ("method", "features", "orthogonal", "projected", "projection", "landmarks", "seed")
OF_KIND = ("method", "orthogonal", "projection")


def way_of(settings: Settings) -> Way:
    """Build the approximation method from the settings; fields that the method does not use take their defaults."""
    method = settings.method
    if method == "performer":
        return Way(method, int(settings.features), settings.seed, settings.orthogonal)
    if method == "linformer":
        seed = settings.seed if settings.projection == "random" else 0
        return Way(method, int(settings.projected), seed, projection=settings.projection)
    return Way(method, int(settings.landmarks) if method == "nystrom" else 0)


def way_question(scene: Scene, settings: Settings) -> Settings:
    """Return the approximation method, and the layer, on which the random draws depend."""
    return Settings((("way", way_of(settings)), ("layer", scene.head[0])))


def measure_qkv(scene: Scene, settings: Settings) -> HeadQKV:
    """Return the queries, keys and values of the main head. Raises InputError unless every layer has full attention."""
    need_attention(scene.model.config)
    return scene.trace.qkv(*scene.head)


def measure(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Approximation:
    """Compute the selected approximation of the main head's softmax, and its errors."""
    return heads.approximate(results["qkv"], settings.way, settings.layer)


def measure_sweep(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Sweep:
    """Measure the errors of every kind and size of approximation on the main head."""
    return heads.sweep(results["qkv"], scene.head[0])


def text_limit(limit: int) -> int:
    """Return the number of held-out tokens to measure if the server's context limit is `limit` tokens."""
    return min(MOST, limit)


def model_question(scene: Scene, settings: Settings) -> Settings:
    """Return the methods to measure and the token ids of the prompt; no ids stand for the held-out text."""
    ids = tuple(scene.tokens.ids.tolist()[:MOST]) if settings.on == "prompt" else ()
    kind = Settings((("features", "1"), ("projected", "1"), ("landmarks", "1"), ("seed", 0), *settings.items()))
    return Settings((("ways", ways_of_kind(way_of(kind))), ("ids", ids)))


def ways_of_kind(way: Way) -> tuple[Way, ...]:
    """Return all sizes and draws of the kind of an approximation."""
    return whole_model.ways_of(way.method, orthogonal=way.orthogonal, projection=way.projection)


def measure_model(scene: Scene, settings: Settings, progress: Progress) -> Experiment:
    """Measure the unedited model with every softmax approximated, for one size after another."""
    ids = list(settings.ids) or held_out_ids(scene.model, text_limit(scene.limit))
    return whole_model.measure(scene.model.model, ids, settings.ways, progress)
