"""Metrics of every head on this prompt, over a probe set, and from the weights alone."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from model.attention.circuits import composition, copying
from model.attention.surveys import SENTENCES, Survey, labels, random_survey, sentence_survey
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Measure
from viz.views.heads.heads.figures import HeadNumbers, Wiring, named

SOURCES = ("prompt", "random", "sentences")
LEAST = 0.25  # minimum fraction of the attention weight for a name


@dataclass(frozen=True, eq=False)
class PromptMetrics:
    """Metrics of every head on this prompt."""

    metrics: pd.DataFrame  # indexed by (layer, head), one column per metric


@dataclass(frozen=True, eq=False)
class Surveyed:
    """Measurements of all heads of a model, which do not depend on the visitor's prompt."""

    random: Survey
    sentences: Survey
    names: dict[tuple[int, int], list[tuple[str, float, float]]]  # {(layer, head): [(name, score, baseline)]}
    copying: np.ndarray  # [L, H], NaN for a head whose output is zero


def run_of(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the key of the requested run; None for a probe set, which needs no run."""
    return Settings((("run", scene.trace.key if settings.source == "prompt" else None),))


def prompt(scene: Scene, settings: Settings) -> PromptMetrics | None:
    """Return the metrics of the run; None if those of a probe set are requested."""
    return PromptMetrics(scene.trace.head_metrics()) if settings.run else None


def survey(scene: Scene, settings: Settings, progress: Progress) -> Surveyed:
    """Measure all heads on both probe sets, name them, and compute their copying scores."""
    lm, before = scene.model, [0]  # `before`: number of sequences in the first probe set

    def random(done: int, total: int | None, what: str) -> None:
        before[0] = total or 0
        progress(done, before[0] + len(SENTENCES) + 1, what)

    def sentences(done: int, total: int | None, what: str) -> None:
        progress(before[0] + done, before[0] + (total or 0) + 1, what)

    repeated = random_survey(lm.model, pool=lm.tokenizer.vocab_size, progress=random)
    natural = sentence_survey(lm.model, lm.encode, progress=sentences)
    return Surveyed(repeated, natural, named(labels(repeated, LEAST)), copying(lm.model))


def wiring(scene: Scene, settings: Settings) -> Wiring:
    """Compute the composition scores between the main head and the others."""
    scores = composition(scene.model.model, *scene.head)
    return Wiring(scene.head, scores.reads, scores.feeds, scores.baseline, scores.baseline_sd)


# PROMPT is not kept because the trace caches its metrics. WIRING is kept: it takes about a second for a large model.
PROMPT = Measure("prompt", prompt, depends=(), settings=("source",), question=run_of, locks=False, keep=False)
SURVEY = Measure("survey", survey, depends=("model",), slow=True)
WIRING = Measure("wiring", wiring, depends=("model", "head"))


def measured_heads(source: str, run: PromptMetrics | None, surveyed: Surveyed | None) -> HeadNumbers | None:
    """Return the metrics of all heads from the selected source; None for a probe set that is not measured yet."""
    if source == "prompt":
        values, spread = run.metrics, None
    elif surveyed is None:
        return None
    else:
        chosen = getattr(surveyed, source)
        values, spread = chosen.mean, chosen.spread
    if surveyed is None:
        return HeadNumbers(values, None, None)
    values = values.assign(copying=surveyed.copying.ravel())
    return HeadNumbers(values, spread if spread is None else spread.assign(copying=math.nan), surveyed.names)
