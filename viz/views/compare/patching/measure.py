"""The tokens that distinguish run A from run B, and the effect of patching vectors or heads between the runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.effects import PATCH_SITES, Target, metric, patch, patch_heads, replacement_cost
from model.errors import InputError
from model.progress import Progress
from model.records import Tokens
from model.sampling.pipeline import softmax
from model.tracing.trace import Trace
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.targets import OFFERED
from viz.seam.view import Measure
from viz.views.compare import run_b
from viz.views.compare.run_b import NoRunB, Other
from viz.words import Words

BY = ("position", "head")  # the unit of a patch: the vector at one layer and token, or one head
WHERE = ("all", "picked")  # positions at which a head is patched: all, or the selected one
INTO = ("b", "a")  # run that receives the vectors of the other
MOST_PLACES = 16_384  # maximum number of cells (layers x tokens) in a map
PLAUSIBLE = 0.003  # smallest probability of a token that is chosen by default
SMALLEST_GAP = 1e-3  # minimum gap in logits; fractions of a smaller gap are meaningless
SETTINGS = (
    Choice("by", BY),
    Choice("site", PATCH_SITES, when={"by": ("position",)}),
    Choice("where", WHERE, when={"by": ("head",)}),
    Choice("into", INTO),
)


@dataclass(frozen=True)
class Watched:
    """The target metric: the difference between two tokens' logits at the last position."""

    token: int
    distractor: int
    a: float  # logit difference in run A
    b: float

    @property
    def target(self) -> Target:
        """The target metric as a `Target` of model.attention.effects."""
        return Target("difference", -1, self.token, self.distractor)

    def ends(self, into: str) -> tuple[float, float]:
        """Return the target metric in the run that provides the vectors, and in the run that receives them."""
        return (self.a, self.b) if into == "b" else (self.b, self.a)


@dataclass(frozen=True)
class Unfit:
    """The reason why one run cannot be patched into the other: a word key of the view, and the values to fill in."""

    word: str
    a: int = 0
    b: int = 0

    def sentence(self, words: Words) -> str:
        """Format the reason in the reader's language, followed by its hint if it has one."""
        sentence = words[self.word].format(a=self.a, b=self.b, n=self.a)
        return f"{sentence} {words.get(f'{self.word}_hint') or ''}".strip()


def first_difference(a: Tokens, b: Tokens) -> int | None:
    """Return the first position at which two runs of equal length have different tokens; None if all are equal."""
    differ = np.flatnonzero(a.ids != b.ids)
    return int(differ[0]) if len(differ) else None


def question_of(scene: Scene, settings: Settings) -> Settings:
    """Drop the settings that have no effect: `site` when heads are patched, `where` when positions are.

    `where` becomes the selected position, or None for all positions.
    """
    chosen = run_b.without_head(scene, settings)
    if chosen.by == "position":
        return chosen.but(where=None)
    chosen = chosen.but(where=scene.position if chosen.where == "picked" else None)
    return chosen.but(site=None) if "site" in chosen else chosen


def measure_usual(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the default tokens, which distinguish the runs: the most likely next token of A and of B.

    If these are the same token, return, of the tokens with a probability of at least PLAUSIBLE in either run, those
    whose logits change the most: the target is larger in A, the distractor in B. Return None if there is no run B of
    the same model.
    """
    other: Other | NoRunB = results["other"]
    if isinstance(other, NoRunB) or not other.same_model:
        return None
    size = scene.model.tokenizer.vocab_size
    a, b = (trace.logits_at(-1)[:size] for trace in _runs(scene, settings))
    first, second = likeliest(a, 1)[0], likeliest(b, 1)[0]
    if first != second:
        return first, second
    plausible = np.maximum(softmax(a), softmax(b)) >= PLAUSIBLE
    change = a - b
    return int(np.where(plausible, change, -np.inf).argmax()), int(np.where(plausible, change, np.inf).argmin())


def measure_target(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Watched | Unfit:
    """Measure the target metric in both runs; return Unfit if one cannot be patched into the other."""
    other: Other | NoRunB = results["other"]
    if unfit := _unfit(scene, other, settings):
        return unfit
    a, b = _runs(scene, settings)
    tokens = watched(scene, results["usual"])
    if tokens[0] == tokens[1]:
        return Unfit("same_token")
    target = Target("difference", -1, *tokens)
    ends = metric(a, target), metric(b, target)
    return Unfit("no_gap") if abs(ends[0] - ends[1]) < SMALLEST_GAP else Watched(*tokens, *ends)


def _unfit(scene: Scene, other: Other | NoRunB, question: Settings) -> Unfit | None:
    """Return the reason why vectors cannot be patched between the two runs; None if they can."""
    if isinstance(other, NoRunB):
        return Unfit("no_b")
    if not other.same_model:
        return Unfit("other_model")
    T, layers = len(scene.tokens), scene.model.config.n_layer
    if len(other.tokens) != T:
        return Unfit("lengths", T, len(other.tokens))
    if other.same_run:
        return Unfit("alike")
    if question.by == "position":
        return Unfit("long", MOST_PLACES // layers) if layers * T > MOST_PLACES else None
    first = first_difference(scene.tokens, other.tokens)
    return None if first is None or question.where is None or question.where >= first else Unfit("alike_so_far", first)


def watched(scene: Scene, usual: tuple[int, int]) -> tuple[int, int]:
    """Return the target and distractor tokens.

    If one is not selected, use the first default token that differs from the other.
    """
    target, other = scene.picked.target, scene.picked.distractor
    if target is None:
        target = next(token for token in usual if token != other)
    return target, next(token for token in usual[::-1] if token != target) if other is None else other


def measure_patch(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> np.ndarray:
    """Measure the change of the target metric due to each patch. float32 [L, T] for vectors, [L, H] for heads

    Raises InputError if one run cannot be patched into the other.
    """
    target: Watched | Unfit = results["target"]
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "patching")))
    a, b = _runs(scene, settings)
    clean, corrupted = (a, b) if settings.into == "b" else (b, a)
    if settings.by == "head":
        return patch_heads(clean, corrupted, target.target, settings.where, progress)
    return patch(clean, corrupted, target.target, settings.site, progress)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens of patching at every place."""
    config, T = scene.model.config, len(scene.tokens)
    return replacement_cost(config.n_layer, T if settings.by == "position" else config.n_head, T)


def _runs(scene: Scene, settings: Settings) -> tuple[Trace, Trace]:
    """Return run A and run B."""
    request = settings.run_b
    return scene.trace, scene.beside(request.model_id, request.prompt)


MEASURES = (
    *run_b.MEASURES,
    Measure(
        "usual",
        measure_usual,
        settings=("run_b",),
        uses=("other",),
        beside=run_b.beside,
        question=run_b.without_head,
    ),
    Measure(
        "target",
        measure_target,
        depends=("run", "watched"),
        settings=("run_b", "by", "where"),
        uses=("other", "usual"),
        beside=run_b.beside,
        question=question_of,
    ),
    Measure(
        "patch",
        measure_patch,
        depends=("run", "watched"),
        settings=("run_b", "by", "site", "where", "into"),
        slow=True,
        cost=cost,
        uses=("other", "target"),
        beside=run_b.beside,
        question=question_of,
    ),
    OFFERED,
)
