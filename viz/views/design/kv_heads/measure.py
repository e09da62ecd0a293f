"""KV heads merged into fewer: what that does to the predictions of a prompt, and to the pattern of a head."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from model.anatomy.anatomy import n_params
from model.design.kv_sharing import MERGES, Stops, Survey, group_counts, pattern_at, stops, survey
from model.gpt.config import ModelConfig
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Settings

QUICK = 8e9  # parameters times tokens up to which a run starts at once: about 0.3 s
SPEED = 2e10  # of them a second


@dataclass(frozen=True, eq=False)
class Maps:
    """The pattern of one head in the model and in the merged one, NaN above the diagonal."""

    before: np.ndarray  # float32 [T, T]
    after: np.ndarray  # float32 [T, T]
    moved: float  # share of its attention that a row moved elsewhere, mean over rows

    @property
    def change(self) -> np.ndarray:
        """The change by merging: after - before. float32 [T, T]"""
        return self.after - self.before


def counts_of(config: ModelConfig) -> tuple[int, ...]:
    """Return the numbers of KV heads that can be chosen: fewer than the model's; its own where there are none."""
    counts = group_counts(config)
    return counts[1:] or counts


def is_alone(config: ModelConfig) -> bool:
    """Whether there is nothing to merge."""
    return config.n_kv_head == 1


def work(config: ModelConfig, T: int) -> float:
    """Return one run, as parameters times tokens."""
    return n_params(config) * T


def runs(config: ModelConfig) -> int:
    """Runs of a survey: the model, its own number of heads, and every other by every merge."""
    return 2 + (len(group_counts(config)) - 1) * len(MERGES)


def measure_quick_survey(scene: Scene, settings: Settings) -> Survey | None:
    """Return every variant; None where that takes a while."""
    config = scene.model.config
    if runs(config) * work(config, len(scene.tokens)) > QUICK:
        return None
    return survey(scene.model.model, scene.tokens.ids.tolist())


def measure_survey(scene: Scene, settings: Settings, progress: Progress) -> Survey:
    """Every variant, however long it takes."""
    return survey(scene.model.model, scene.tokens.ids.tolist(), progress)


def measure_quick_run(scene: Scene, settings: Settings) -> Stops | None:
    """Return a run of the chosen variant; None where that takes a while, or where there is nothing to merge."""
    config = scene.model.config
    if is_alone(config) or work(config, len(scene.tokens)) > QUICK:
        return None
    return stops(scene.model.model, scene.tokens.ids.tolist(), int(settings.groups), settings.merge)


def measure_run(scene: Scene, settings: Settings, progress: Progress) -> Stops:
    """A run of the chosen variant, however long it takes."""
    return stops(scene.model.model, scene.tokens.ids.tolist(), int(settings.groups), settings.merge, progress)


def measure_maps(scene: Scene, settings: Settings, results: Mapping[str, Stops | None]) -> Maps | None:
    """Return the main head before and after; None before the variant was run. Edits are left out."""
    run = results["quick_run"] or results["run"]
    if run is None:
        return None
    after = pattern_at(scene.model.model, run, *scene.head)
    before = past(scene.unedited.pattern(*scene.head))
    return Maps(before, after, moved(before, after))


def past(pattern: np.ndarray) -> np.ndarray:
    """Return a pattern with NaN above the diagonal. [T, T]"""
    return np.where(np.tri(len(pattern), dtype=bool), pattern, np.float32(np.nan))


def moved(before: np.ndarray, after: np.ndarray) -> float:
    """Return the share of its attention that a row moved elsewhere, mean over rows after the first: half of sum |A' -
    A|.
    """
    rows = 0.5 * np.nansum(np.abs(after - before), 1)
    return float(rows[1:].mean()) if len(rows) > 1 else 0.0
