"""The numbers of one norm: its steps on one token, its values before and after, and BatchNorm in its place."""

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
    """Histograms of the gain and of the bias of the norm, None where it has no bias."""

    gain: Counted
    bias: Counted | None


def place_of(config: ModelConfig, settings: Settings) -> Place:
    """Return the norm that is chosen."""
    return norms_of(config)[int(settings.norm)]


def _norm(scene: Scene, settings: Settings) -> Norm:
    """Return the norm of the model itself."""
    return norm_of(scene.model.model, *place_of(scene.model.config, settings))


def measure_read(scene: Scene, settings: Settings) -> np.ndarray:
    """Return the input of the norm, float32 [T, D]; raises InputError where edits drove it beyond the range
    of float32.
    """
    x = norm_input(scene.trace, *place_of(scene.model.config, settings))
    if not np.isfinite(x).all():
        raise InputError(
            "The numbers that this norm reads have left the range of float32.",
            "",
            "Remove an edit, or choose an earlier layer.",
        )
    return x


def measure_walk(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> Walk:
    """Return every step of the norm on the token that is looked at."""
    return walk_vector(_norm(scene, settings), results["read"][scene.position])


def measure_values(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> Both:
    """Return the input and output of the norm, over all tokens."""
    read = results["read"]
    return Both(counted(read), counted(norm_output(_norm(scene, settings), read)))


def measure_gains(scene: Scene, settings: Settings) -> Parameters:
    """Return the learned parameters of the norm."""
    norm = _norm(scene, settings)
    bias = None if norm.bias is None else counted(norm.bias.detach().numpy())
    return Parameters(counted(norm.weight.detach().numpy()), bias)


def measure_all(scene: Scene, settings: Settings) -> dict[str, np.ndarray]:
    """5 %, median and 95 % of "gain" and, where there is one, "bias" of all norms. float64 [norms, 3]"""
    return quantiles(scene.model.model)


def measure_batch(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> BatchCompared:
    """Return the prompt under the norm and under BatchNorm."""
    return compare_batch(_norm(scene, settings), results["read"])
