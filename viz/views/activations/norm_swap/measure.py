"""Measurements of a run with changed norms: over the whole prompt, of the residual stream, and of one prediction."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from model.activations.norm_swap import WHERE, Swapped, divergence_at, places_of, swapped
from model.activations.norm_walk import Place, norms_of
from model.attention.effects import next_tokens
from model.gpt.config import ModelConfig
from model.progress import Progress, silent
from viz.charts.distribution import entropy
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.views.activations.runs import is_quick


@dataclass(frozen=True, eq=False)
class Changed:
    """A run with changed norms; its results cover the n leading tokens whose values are all finite in float32."""

    read: np.ndarray  # input of the output head, float32 [n, D]
    before: np.ndarray  # length of each token's stream entering block l in the unchanged run, float64 [L + 1, T]
    lengths: np.ndarray  # the same in the changed run; NaN after an overflow
    overflow: int | None  # block of the first overflow of float32; n_layer: the final norm or the logits
    kl: float | None  # mean over the n tokens of KL(p before || p after), in nats
    losses: tuple[float, float] | None  # mean next-token loss of these tokens, before and after, in nats per token

    def run(self, scene: Scene) -> Swapped:
        """Convert to the `Swapped` of the model package."""
        read = torch.from_numpy(self.read)
        return Swapped(scene.model.model, read, self.before, self.lengths, self.overflow, self.kl, self.losses)


@dataclass(frozen=True, eq=False)
class Next:
    """The prediction at one position, before and after the change."""

    table: pd.DataFrame  # from model.attention.effects.next_tokens
    entropy: tuple[float, float]  # before and after, nats
    kl: float  # KL(p before || p after), nats


def places(config: ModelConfig, settings: Settings) -> tuple[Place, ...]:
    """Return the norms that the settings select."""
    if settings.where == "one":
        return (norms_of(config)[int(settings.norm)],)
    return places_of(config, settings.where)


def wheres(scene: Scene) -> tuple[str, ...]:
    """Return the options of WHERE that select at least one norm of this model."""
    return tuple(where for where in WHERE if where == "one" or places_of(scene.model.config, where))


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the change and the affected norms, so that equivalent selections share one result."""
    return Settings((("swap", settings.swap), ("places", places(scene.model.config, settings))))


def measure_quick(scene: Scene, settings: Settings) -> Changed | None:
    """Compute the changed run if it is quick, otherwise return None."""
    if not is_quick(scene.model.n_params, len(scene.tokens)):
        return None
    return measure_changed(scene, settings)


def measure_changed(scene: Scene, settings: Settings, progress: Progress = silent) -> Changed:
    """Compute the changed run, however long it takes."""
    run = swapped(scene.trace, settings.swap, settings.places, progress)
    return Changed(run.read.numpy(), run.before, run.lengths, run.overflow, run.kl, run.losses)


def measure_next(scene: Scene, settings: Settings, results: Mapping[str, Changed | None]) -> Next | None:
    """Compare the prediction at the selected position before and after the change.

    None without a changed run, or if the values at this position overflow.
    """
    changed, at = results["quick"] or results["changed"], scene.position
    if changed is None or at >= len(changed.read):
        return None
    after = changed.run(scene)
    before_logits, after_logits = (run.logits_at(at) for run in (scene.trace, after))
    table = next_tokens(scene.trace, after, at)
    both = (entropy(before_logits), entropy(after_logits))
    return Next(table, both, divergence_at(before_logits, after_logits))
