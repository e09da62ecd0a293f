"""Number formats: their bytes, their distance from a matrix, and their effect on the outputs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.progress import Progress
from model.quantization import experiments
from model.quantization.experiments import Outcome, layer_of, matrices, total_bytes, usable
from model.quantization.formats import FORMATS, USUAL, WeightError, stored, weight_error
from model.quantization.speed import RUNNERS, tokens_per_second
from model.quantization.texts import file_types, held_out_ids
from viz.seam.scene import Scene
from viz.seam.settings import Settings

WHICH = {"usual": USUAL, "all": tuple(FORMATS)}
PROMPT_TOKENS = 256  # of a long prompt the first ones are measured, and at most as many of the held-out text


@dataclass(frozen=True)
class Size:
    """The measurements of one format on the model."""

    nbytes: int  # of all rounded matrices
    weights: int
    kept16: int  # of them, matrices that stay float16 because their rows do not fit


@dataclass(frozen=True)
class Sizes:
    """The formats that the model can be stored in."""

    n: int  # matrices that are rounded
    by_format: Mapping[str, Size]


@dataclass(frozen=True)
class Matrix:
    """One matrix under every format."""

    shape: tuple[int, int]  # [out, in]
    errors: Mapping[str, WeightError]


@dataclass(frozen=True, eq=False)
class Levels:
    """One matrix before and after rounding."""

    weight: np.ndarray  # float32 [out, in]
    values: np.ndarray  # rounded, [out, in]
    error: WeightError
    different: tuple[int, int]  # values, before and after


@dataclass(frozen=True, eq=False)
class Run:
    """The result of the measurement that the button starts."""

    outcomes: Mapping[str, Outcome]
    text: int  # tokens of the held-out text
    maps: Mapping[str, np.ndarray]  # attention patterns of the first tokens by format, float16 [L, H, t, t]


@dataclass(frozen=True, eq=False)
class Patterns:
    """One head before and after rounding: float32 and in a format. [t, t] each"""

    before: np.ndarray
    after: np.ndarray


def measure_sizes(scene: Scene, settings: Settings) -> Sizes:
    """Return the bytes by their formula; nothing is rounded for it."""
    model, head, sizes = scene.model.model, settings.head, {}
    weights = [weight for _, weight in matrices(model, head=head)]
    for key in WHICH[settings.which]:
        if usable(model, FORMATS[key]):
            kept16 = sum(not FORMATS[key].fits(weight.shape[1]) for weight in weights)
            sizes[key] = Size(*total_bytes(model, FORMATS[key], head=head), kept16)
    return Sizes(len(weights), sizes)


def measure_matrix(scene: Scene, settings: Settings) -> Matrix:
    """Return the error of one matrix of the main head's layer under every format."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight
    fitting = (FORMATS[key] for key in WHICH[settings.which] if FORMATS[key].fits(weight.shape[1]))
    errors = {kind.key: weight_error(weight, *stored(weight, kind)) for kind in fitting}
    return Matrix(tuple(weight.shape), errors)


def measure_levels(scene: Scene, settings: Settings) -> Levels:
    """Return the same matrix before and after rounding to one format."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight.detach()
    values, nbytes = stored(weight, FORMATS[settings.one])
    different = len(weight.unique()), len(values.unique())
    return Levels(weight.float().numpy(), values.numpy(), weight_error(weight, values, nbytes), different)


def measure_file(scene: Scene, settings: Settings) -> dict[str, int]:
    """Return how many tensors of each type the model's own file holds; {} where it is no GGUF."""
    return file_types(scene.model.id)


def outputs_question(scene: Scene, settings: Settings) -> Settings:
    """Return the first tokens of the prompt; edits are left out."""
    return Settings((*settings.items(), ("ids", tuple(scene.tokens.ids.tolist()[:PROMPT_TOKENS]))))


def text_limit(limit: int) -> int:
    """Return the tokens of the held-out text on a server that measures so long a context."""
    return min(PROMPT_TOKENS, limit)


def measure_outputs(scene: Scene, settings: Settings, progress: Progress) -> Run:
    """Return the plain model in one format after the other, on the prompt and on a held-out text."""
    model, ids = scene.model, list(settings.ids)
    text = held_out_ids(model, text_limit(scene.limit))
    keys = WHICH[settings.which]
    outcomes, maps = experiments.measure(model.model, (ids, text), keys, head=settings.head, progress=progress)
    by_format = {}
    for each in outcomes:
        speed = None
        if each.key in RUNNERS:
            speed = tokens_per_second(model.model, each.key, ids, lambda: progress(1, 1, ""))
        by_format[each.key] = dataclasses.replace(each, speed=speed)
    return Run(by_format, len(text), dict(maps.by_format))


def measure_patterns(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Patterns | None:
    """Return the main head in float32 and in one format; None where that was not measured."""
    run = results["outputs"]
    if run is None or settings.one not in run.maps or settings.one not in run.outcomes:
        return None
    layer, head = scene.head
    after = run.maps[settings.one][layer, head]
    return Patterns(scene.unedited.pattern(layer, head)[: len(after), : len(after)], after)
