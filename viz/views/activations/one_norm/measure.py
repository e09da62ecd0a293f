"""Measurements of one norm: its steps on one token, its input and output values, its parameters, and BatchNorm."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from model.activations.norm_walk import (
    BatchCompared,
    Place,
    Walk,
    compare_batch,
    norm_input,
    norm_of,
    norm_output,
    norms_of,
    quantiles,
    walk_vector,
)
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.norm import Norm
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.views.activations.one_norm.figures import Counted, counted


@dataclass(frozen=True, eq=False)
class Both:
    """Histograms of the values before and after the norm, over all tokens."""

    before: Counted
    after: Counted


@dataclass(frozen=True, eq=False)
class Parameters:
    """Histograms of the norm's gain and bias; `bias` is None for a norm without one."""

    gain: Counted
    bias: Counted | None


def place_of(config: ModelConfig, settings: Settings) -> Place:
    """Return the layer and site of the selected norm."""
    return norms_of(config)[int(settings.norm)]


def _norm(scene: Scene, settings: Settings) -> Norm:
    """Return the model's module for the selected norm."""
    return norm_of(scene.model.model, *place_of(scene.model.config, settings))


def measure_read(scene: Scene, settings: Settings) -> np.ndarray:
    """Return the norm's input, float32 [T, D]. Raises InputError if it overflows float32 because of edits."""
    x = norm_input(scene.trace, *place_of(scene.model.config, settings))
    if not np.isfinite(x).all():
        raise InputError(
            "The numbers that this norm reads have left the range of float32.",
            "",
            "Remove an edit, or choose an earlier layer.",
        )
    return x


def measure_walk(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> Walk:
    """Compute every step of the norm on the token at the selected position."""
    return walk_vector(_norm(scene, settings), results["read"][scene.position])


def measure_values(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> Both:
    """Compute the histograms of the norm's input and output over all tokens."""
    read = results["read"]
    return Both(counted(read), counted(norm_output(_norm(scene, settings), read)))


def measure_gains(scene: Scene, settings: Settings) -> Parameters:
    """Compute the histograms of the norm's learned parameters."""
    norm = _norm(scene, settings)
    bias = None if norm.bias is None else counted(norm.bias.detach().numpy())
    return Parameters(counted(norm.weight.detach().numpy()), bias)


def measure_all(scene: Scene, settings: Settings) -> dict[str, np.ndarray]:
    """Compute the 5%, 50% and 95% quantiles of the gain and any bias of every norm: float64 [norms, 3] each."""
    return quantiles(scene.model.model)


def measure_batch(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> BatchCompared:
    """Compare the norm with BatchNorm on the prompt."""
    return compare_batch(_norm(scene, settings), results["read"])
