"""The run with changed norms: what becomes of the whole prompt, of the stream, and of one prediction."""

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
    """A run with changed norms: of n leading tokens, those whose numbers all stay within float32."""

    read: np.ndarray  # what the output head reads, float32 [n, D]
    before: np.ndarray  # length of each token's stream entering block l in the run as it is, float64 [L + 1, T]
    lengths: np.ndarray  # and in the changed one; NaN for what left float32
    overflow: int | None  # the block in which the first number left float32; n_layer: the final norm or the logits
    kl: float | None  # mean over the n tokens of KL(p before || p after), in nats
    losses: tuple[float, float] | None  # mean loss of the tokens that follow them, before and after, in nats a token

    def run(self, scene: Scene) -> Swapped:
        """Return the same for the model's code."""
        read = torch.from_numpy(self.read)
        return Swapped(scene.model.model, read, self.before, self.lengths, self.overflow, self.kl, self.losses)


@dataclass(frozen=True, eq=False)
class Next:
    """One prediction before and after."""

    table: pd.DataFrame  # of model.attention.effects.next_tokens
    entropy: tuple[float, float]  # before and after, nats
    kl: float  # KL(p before || p after), nats


def places(config: ModelConfig, settings: Settings) -> tuple[Place, ...]:
    """Return the norms that are changed."""
    if settings.where == "one":
        return (norms_of(config)[int(settings.norm)],)
    return places_of(config, settings.where)


def wheres(scene: Scene) -> tuple[str, ...]:
    """Which norms can be changed together in this model."""
    return tuple(where for where in WHERE if where == "one" or places_of(scene.model.config, where))


def question(scene: Scene, settings: Settings) -> Settings:
    """The change and the norms, however they were chosen."""
    return Settings((("swap", settings.swap), ("places", places(scene.model.config, settings))))


def measure_quick(scene: Scene, settings: Settings) -> Changed | None:
    """Return the changed run; None where it takes a while."""
    if not is_quick(scene.model.n_params, len(scene.tokens)):
        return None
    return measure_changed(scene, settings)


def measure_changed(scene: Scene, settings: Settings, progress: Progress = silent) -> Changed:
    """The changed run, however long it takes."""
    run = swapped(scene.trace, settings.swap, settings.places, progress)
    return Changed(run.read.numpy(), run.before, run.lengths, run.overflow, run.kl, run.losses)


def measure_next(scene: Scene, settings: Settings, results: Mapping[str, Changed | None]) -> Next | None:
    """Return the prediction at the position that is looked at; None before the run, and where the numbers overflow."""
    changed, at = results["quick"] or results["changed"], scene.position
    if changed is None or at >= len(changed.read):
        return None
    after = changed.run(scene)
    before_logits, after_logits = (run.logits_at(at) for run in (scene.trace, after))
    table = next_tokens(scene.trace, after, at)
    both = (entropy(before_logits), entropy(after_logits))
    return Next(table, both, divergence_at(before_logits, after_logits))
