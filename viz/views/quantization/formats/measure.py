"""Measurements of number formats: their bytes, the error of a matrix, and their effect on the output."""

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
PROMPT_TOKENS = 256  # most tokens measured, of the prompt and of the held-out text


@dataclass(frozen=True)
class Size:
    """The size of the model's rounded matrices in one format."""

    nbytes: int  # of all rounded matrices
    weights: int
    kept16: int  # number of matrices that stay float16 because their rows do not fit


@dataclass(frozen=True)
class StorageSizes:
    """The sizes of the model in all usable formats."""

    n: int  # number of rounded matrices
    by_format: Mapping[str, Size]


@dataclass(frozen=True)
class Matrix:
    """The error of one matrix in every format."""

    shape: tuple[int, int]  # [out, in]
    errors: Mapping[str, WeightError]


@dataclass(frozen=True, eq=False)
class Levels:
    """One matrix before and after rounding."""

    weight: np.ndarray  # float32 [out, in]
    values: np.ndarray  # rounded, [out, in]
    error: WeightError
    different: tuple[int, int]  # number of distinct values before and after


@dataclass(frozen=True, eq=False)
class FormatResults:
    """The result of the slow measurement."""

    outcomes: Mapping[str, Outcome]
    text: int  # number of tokens of the held-out text
    maps: Mapping[str, np.ndarray]  # attention maps of the first tokens by format, float16 [L, H, t, t]


@dataclass(frozen=True, eq=False)
class Patterns:
    """One head's attention map in float32 and in a rounded format. [t, t] each"""

    before: np.ndarray
    after: np.ndarray


def measure_sizes(scene: Scene, settings: Settings) -> StorageSizes:
    """Compute the bytes of every usable format by formula, without rounding a weight."""
    model, head, sizes = scene.model.model, settings.head, {}
    weights = [weight for _, weight in matrices(model, head=head)]
    for key in WHICH[settings.which]:
        if usable(model, FORMATS[key]):
            kept16 = sum(not FORMATS[key].fits(weight.shape[1]) for weight in weights)
            sizes[key] = Size(*total_bytes(model, FORMATS[key], head=head), kept16)
    return StorageSizes(len(weights), sizes)


def measure_matrix(scene: Scene, settings: Settings) -> Matrix:
    """Measure the error of one matrix of the main head's layer in every format that fits its rows."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight
    fitting = (FORMATS[key] for key in WHICH[settings.which] if FORMATS[key].fits(weight.shape[1]))
    errors = {kind.key: weight_error(weight, *stored(weight, kind)) for kind in fitting}
    return Matrix(tuple(weight.shape), errors)


def measure_levels(scene: Scene, settings: Settings) -> Levels:
    """Round one matrix of the main head's layer to one format, and keep it before and after."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight.detach()
    values, nbytes = stored(weight, FORMATS[settings.one])
    different = len(weight.unique()), len(values.unique())
    return Levels(weight.float().numpy(), values.numpy(), weight_error(weight, values, nbytes), different)


def measure_file(scene: Scene, settings: Settings) -> dict[str, int]:
    """Count the tensors of each type in the model's own file; {} unless it is a GGUF file."""
    return file_types(scene.model.id)


def outputs_question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings with the ids of the prompt's first PROMPT_TOKENS tokens; edits play no part."""
    return Settings((*settings.items(), ("ids", tuple(scene.tokens.ids.tolist()[:PROMPT_TOKENS]))))


def text_limit(limit: int) -> int:
    """Return the number of held-out tokens to measure on a server whose context limit is `limit` tokens."""
    return min(PROMPT_TOKENS, limit)


def measure_outputs(scene: Scene, settings: Settings, progress: Progress) -> FormatResults:
    """Measure the plain model in one format after another, on the prompt and on a held-out text.

    Formats with a runner are also timed, in tokens per second.
    """
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
    return FormatResults(by_format, len(text), dict(maps.by_format))


def measure_patterns(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Patterns | None:
    """Return the main head's attention map in float32 and in the selected format; None if that was not measured."""
    run = results["outputs"]
    if run is None or settings.one not in run.maps or settings.one not in run.outcomes:
        return None
    layer, head = scene.head
    after = run.maps[settings.one][layer, head]
    return Patterns(scene.unedited.pattern(layer, head)[: len(after), : len(after)], after)
