"""Metrics of every head on this prompt, over a probe set, and from the weights alone."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from model.attention.circuits import composition, copying
from model.attention.head_examples import HeadExample, best_examples
from model.attention.span_heads import span_heads
from model.attention.surveys import LENGTH, SENTENCES, SEQUENCES, Survey, labels, random_survey, sentence_survey
from model.progress import Progress
from model.tracing.head_reducer import HeadReducer
from model.tracing.trace import Trace
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Measure
from viz.views.heads.heads.figures import HeadNumbers, Wiring, named

SOURCES = (
    "random",
    "sentences",
    "prompt",
    "words",
)  # the first is the default; the prompt replaces it before the survey
OF_PROMPT = {"prompt": "tokens", "words": "words"}  # sources without a survey, and their units
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
    sentence_tokens: tuple[tuple[str, ...], ...]  # the texts of the tokens of each sentence
    examples: dict[tuple[int, int, str], HeadExample]  # by layer, head and name; on the sentences


def prompt(scene: Scene, settings: Settings) -> PromptMetrics:
    """Return the metrics of the run, which are drawn only if the settings name the run (`run_of` in view.py)."""
    trace = scene.trace
    if settings.unit == "tokens":
        return PromptMetrics(trace.head_metrics())
    return PromptMetrics(span_heads(trace if isinstance(trace, Trace) else trace.here(), settings.unit).metrics)


def survey(scene: Scene, settings: Settings, progress: Progress) -> Surveyed:
    """Measure all heads on both probe sets, name them, and compute their copying scores."""
    lm, before = scene.model, [0]  # `before`: number of sequences in the first probe set
    seen: list[HeadReducer] = []  # one per sentence

    def random(done: int, total: int | None, what: str) -> None:
        before[0] = total or 0
        progress(done, before[0] + len(SENTENCES) + 1, what)

    def sentences(done: int, total: int | None, what: str) -> None:
        progress(before[0] + done, before[0] + (total or 0) + 1, what)

    repeated = random_survey(lm.model, pool=lm.tokenizer.vocab_size, progress=random)
    natural = sentence_survey(lm.model, lm.encode, progress=sentences, finished=seen.append)
    found = labels(repeated, LEAST)
    return Surveyed(
        repeated,
        natural,
        named(found),
        copying(lm.model) if "weights" in lm.gives else np.full((lm.config.n_layer, lm.config.n_head), math.nan),
        tuple(tuple(lm.encode(text).pieces[: lm.config.n_ctx]) for text in SENTENCES),
        best_examples([each.rows for each in seen], [each.repeats for each in seen], found),
    )


def cost(scene: Scene | None, settings: Settings) -> tuple[float, float]:
    """Estimate the forward passes over both probe sets, and the tokens read: random sequences twice, once shuffled."""
    runs = 2 * SEQUENCES + len(SENTENCES)
    return runs, runs * LENGTH


def wiring(scene: Scene, settings: Settings) -> Wiring:
    """Compute the composition scores between the main head and the others."""
    scores = composition(scene.model.model, *scene.head)
    return Wiring(scene.head, scores.reads, scores.feeds, scores.baseline, scores.baseline_sd)


# WIRING is kept: it takes about a second for a large model.
SURVEY = Measure("survey", survey, depends=("model",), slow=True, cost=cost)
WIRING = Measure("wiring", wiring, depends=("model", "head"), needs=("weights",))


def measured_heads(source: str, run: PromptMetrics, surveyed: Surveyed | None) -> HeadNumbers:
    """Return the metrics of all heads from the given source: a probe set of the survey, or the run of the prompt.

    With a survey, the heads have their names and copying scores.
    """
    if surveyed is None:
        return HeadNumbers(run.metrics, None, None)
    if source in OF_PROMPT:
        values, spread = run.metrics, None
    else:
        chosen = getattr(surveyed, source)
        values, spread = chosen.mean, chosen.spread.assign(copying=math.nan)
    return HeadNumbers(values.assign(copying=surveyed.copying.ravel()), spread, surveyed.names)
