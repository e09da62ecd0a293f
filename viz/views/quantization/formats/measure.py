"""Measurements of number formats: their size in bytes, the error of a matrix, and their effect on the output."""

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
PROMPT_TOKENS = 256  # maximum number of tokens to measure of the prompt, and of the held-out text


@dataclass(frozen=True)
class Size:
    """The size of the model's quantized matrices in one format."""

    nbytes: int  # total size of the quantized matrices
    weights: int
    kept16: int  # number of matrices that stay float16 because their rows do not fit


@dataclass(frozen=True)
class StorageSizes:
    """The sizes of the model in all usable formats."""

    n: int  # number of quantized matrices
    by_format: Mapping[str, Size]


@dataclass(frozen=True)
class Matrix:
    """The error of one matrix in each format."""

    shape: tuple[int, int]  # [out, in]
    errors: Mapping[str, WeightError]


@dataclass(frozen=True, eq=False)
class Levels:
    """One matrix before and after quantization."""

    weight: np.ndarray  # float32 [out, in]
    values: np.ndarray  # quantized, [out, in]
    error: WeightError
    different: tuple[int, int]  # numbers of distinct values before and after


@dataclass(frozen=True, eq=False)
class FormatResults:
    """The results of running the model in each format."""

    outcomes: Mapping[str, Outcome]
    text: int  # number of tokens of the held-out text
    maps: Mapping[str, np.ndarray]  # {format: attention maps of the first tokens}, float16 [L, H, t, t]


@dataclass(frozen=True, eq=False)
class Patterns:
    """One head's attention map in float32 and in a quantized format. [t, t] each"""

    before: np.ndarray
    after: np.ndarray


def measure_sizes(scene: Scene, settings: Settings) -> StorageSizes:
    """Compute the size of the model in each usable format by formula, without quantizing any weights."""
    model, head, sizes = scene.model.model, settings.head, {}
    weights = [weight for _, weight in matrices(model, head=head)]
    for key in WHICH[settings.which]:
        if usable(model, FORMATS[key]):
            kept16 = sum(not FORMATS[key].fits(weight.shape[1]) for weight in weights)
            sizes[key] = Size(*total_bytes(model, FORMATS[key], head=head), kept16)
    return StorageSizes(len(weights), sizes)


def measure_matrix(scene: Scene, settings: Settings) -> Matrix:
    """Measure the error of one matrix of the main head's layer in each format that fits its rows."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight
    fitting = (FORMATS[key] for key in WHICH[settings.which] if FORMATS[key].fits(weight.shape[1]))
    errors = {kind.key: weight_error(weight, *stored(weight, kind)) for kind in fitting}
    return Matrix(tuple(weight.shape), errors)


def measure_levels(scene: Scene, settings: Settings) -> Levels:
    """Quantize one matrix of the main head's layer, and keep it before and after."""
    weight = layer_of(scene.model.model.blocks[scene.head[0]], settings.matrix).weight.detach()
    values, nbytes = stored(weight, FORMATS[settings.one])
    different = len(weight.unique()), len(values.unique())
    return Levels(weight.float().numpy(), values.numpy(), weight_error(weight, values, nbytes), different)


def measure_file(scene: Scene, settings: Settings) -> dict[str, int]:
    """Count the tensors of each type in the model's own file; empty unless it is a GGUF file."""
    return file_types(scene.model.id)


def outputs_question(scene: Scene, settings: Settings) -> Settings:
    """Add the ids of the prompt's first PROMPT_TOKENS tokens to the settings; edits are not considered."""
    return Settings((*settings.items(), ("ids", tuple(scene.tokens.ids.tolist()[:PROMPT_TOKENS]))))


def text_limit(limit: int) -> int:
    """Return the number of held-out tokens to measure on a server whose context limit is `limit` tokens."""
    return min(PROMPT_TOKENS, limit)


def measure_outputs(scene: Scene, settings: Settings, progress: Progress) -> FormatResults:
    """Measure the unedited model in one format after another, on the prompt and on a held-out text.

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
    """Return the main head's attention map in float32 and in the selected format; None if it is not measured yet."""
    run = results["outputs"]
    if run is None or settings.one not in run.maps or settings.one not in run.outcomes:
        return None
    layer, head = scene.head
    after = run.maps[settings.one][layer, head]
    return Patterns(scene.unedited.pattern(layer, head)[: len(after), : len(after)], after)
