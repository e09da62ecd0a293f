"""Measurements of merged KV heads: the effect on the predictions for a prompt, and on one head's attention map."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from model.anatomy.anatomy import n_params
from model.design.kv_sharing import MERGES, Stops, Survey, group_counts, pattern_at, stops, survey
from model.gpt.config import ModelConfig
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Settings

QUICK = 8e9  # maximum cost of runs without a button, in parameters times tokens; about 0.3 s
SPEED = 2e10  # approximate parameters times tokens per second


@dataclass(frozen=True, eq=False)
class Maps:
    """Attention maps of one head before and after merging, NaN above the diagonal."""

    before: np.ndarray  # float32 [T, T]
    after: np.ndarray  # float32 [T, T]
    moved: float  # mean fraction of a row's attention that moves to other keys

    @property
    def change(self) -> np.ndarray:
        """Change due to merging: after - before. float32 [T, T]"""
        return self.after - self.before


def counts_of(config: ModelConfig) -> tuple[int, ...]:
    """Return the selectable numbers of KV heads: all below the model's own; 1 if the model has a single KV head."""
    counts = group_counts(config)
    return counts[1:] or counts


def has_one_kv_head(config: ModelConfig) -> bool:
    """Return whether the model has a single KV head, in which case nothing can be merged."""
    return config.n_kv_head == 1


def work(config: ModelConfig, T: int) -> float:
    """Return the cost of one run, in parameters times tokens."""
    return n_params(config) * T


def runs(config: ModelConfig) -> int:
    """Count the runs of a survey: the model, its own number of KV heads, and each smaller number with each merge."""
    return 2 + (len(group_counts(config)) - 1) * len(MERGES)


def measure_quick_survey(scene: Scene, settings: Settings) -> Survey | None:
    """Compare all variants; return None if the cost exceeds QUICK."""
    config = scene.model.config
    if runs(config) * work(config, len(scene.tokens)) > QUICK:
        return None
    return survey(scene.model.model, scene.tokens.ids.tolist())


def cost_of_survey(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens of the comparison."""
    n = runs(scene.model.config)
    return n, n * len(scene.tokens)


def measure_survey(scene: Scene, settings: Settings, progress: Progress) -> Survey:
    """Compare all variants, regardless of the cost."""
    return survey(scene.model.model, scene.tokens.ids.tolist(), progress)


def measure_quick_run(scene: Scene, settings: Settings) -> Stops | None:
    """Run the selected variant; return None if the cost exceeds QUICK or the model has a single KV head."""
    config = scene.model.config
    if has_one_kv_head(config) or work(config, len(scene.tokens)) > QUICK:
        return None
    return stops(scene.model.model, scene.tokens.ids.tolist(), int(settings.groups), settings.merge)


def cost_of_run(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens of the selected variant; infinite for one KV head."""
    return (math.inf, math.inf) if has_one_kv_head(scene.model.config) else (1, len(scene.tokens))


def measure_run(scene: Scene, settings: Settings, progress: Progress) -> Stops:
    """Run the selected variant, regardless of the cost."""
    return stops(scene.model.model, scene.tokens.ids.tolist(), int(settings.groups), settings.merge, progress)


def measure_maps(scene: Scene, settings: Settings, results: Mapping[str, Stops | None]) -> Maps | None:
    """Compute the main head's maps before and after merging, without edits; return None until the variant has run."""
    run = results["quick_run"] or results["run"]
    if run is None:
        return None
    after = pattern_at(scene.model.model, run, *scene.head)
    before = masked(scene.unedited.pattern(*scene.head))
    return Maps(before, after, moved(before, after))


def masked(pattern: np.ndarray) -> np.ndarray:
    """Replace the entries of an attention pattern above the diagonal by NaN. [T, T]"""
    return np.where(np.tri(len(pattern), dtype=bool), pattern, np.float32(np.nan))


def moved(before: np.ndarray, after: np.ndarray) -> float:
    """Compute the mean fraction of a row's attention that moves to other keys: half of sum |A' - A|, without row 0."""
    rows = 0.5 * np.nansum(np.abs(after - before), 1)
    return float(rows[1:].mean()) if len(rows) > 1 else 0.0
