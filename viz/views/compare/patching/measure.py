"""The tokens that distinguish run A from run B, and the effects of patching vectors or heads of one into the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.effects import PATCH_SITES, Target, metric, patch, patch_heads
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

BY = ("position", "head")  # unit of a patch: the vector of one layer and token, or one head
WHERE = ("all", "picked")  # the positions at which a head is patched
INTO = ("b", "a")  # the run that receives the other's vectors
MOST_PLACES = 16_384  # layers x tokens of a map
SMALLEST_GAP = 1e-3  # logits; shares of a smaller gap are meaningless
SETTINGS = (
    Choice("by", BY),
    Choice("site", PATCH_SITES, when={"by": ("position",)}),
    Choice("where", WHERE, when={"by": ("head",)}),
    Choice("into", INTO),
)


@dataclass(frozen=True)
class Watched:
    """The watched number: the difference of two tokens' logits after the last position."""

    token: int
    distractor: int
    a: float  # the difference in run A
    b: float

    @property
    def target(self) -> Target:
        """The watched number as a Target for the model's code."""
        return Target("difference", -1, self.token, self.distractor)

    def ends(self, into: str) -> tuple[float, float]:
        """Return the number in the source run of the vectors, and in the run that receives them."""
        return (self.a, self.b) if into == "b" else (self.b, self.a)


@dataclass(frozen=True)
class Unfit:
    """The reason why one run cannot be patched into the other: a word of the view, and its values."""

    word: str
    a: int = 0
    b: int = 0

    def sentence(self, words: Words) -> str:
        """Format the reason in the reader's language, with a hint if it has one."""
        sentence = words[self.word].format(a=self.a, b=self.b, n=self.a)
        return f"{sentence} {words.get(f'{self.word}_hint') or ''}".strip()


def first_difference(a: Tokens, b: Tokens) -> int | None:
    """Return the first position at which two runs of equal length have different tokens; None if all are the same."""
    differ = np.flatnonzero(a.ids != b.ids)
    return int(differ[0]) if len(differ) else None


def question_of(scene: Scene, settings: Settings) -> Settings:
    """Drop the settings without effect: `site` if heads are patched, `where` if positions are.

    `where` becomes the selected position, or None for all of them.
    """
    chosen = run_b.without_head(scene, settings)
    if chosen.by == "position":
        return chosen.but(where=None)
    chosen = chosen.but(where=scene.position if chosen.where == "picked" else None)
    return chosen.but(site=None) if "site" in chosen else chosen


def measure_usual(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the default tokens, which distinguish the runs: the most likely next token of A and of B.

    If both are the same token, take the ones with the largest gain in probability in A over B, and in B over A.
    Returns None without a run B of the same model.
    """
    other: Other | NoRunB = results["other"]
    if isinstance(other, NoRunB) or not other.same_model:
        return None
    size = scene.model.tokenizer.vocab_size
    a, b = (softmax(trace.logits_at(-1)[:size]) for trace in _runs(scene, settings))
    first, second = likeliest(a, 1)[0], likeliest(b, 1)[0]
    return (first, second) if first != second else (likeliest(a - b, 1)[0], likeliest(b - a, 1)[0])


def measure_target(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Watched | Unfit:
    """Measure the watched number in both runs; return Unfit if they cannot be patched."""
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
    """Return the reason why vectors of the two runs cannot be exchanged; None if they can."""
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
    """Return target and distractor; a default token that differs from the other one replaces a missing selection."""
    target, other = scene.picked.target, scene.picked.distractor
    if target is None:
        target = next(token for token in usual if token != other)
    return target, next(token for token in usual[::-1] if token != target) if other is None else other


def measure_patch(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> np.ndarray:
    """Measure the change of the watched number by each patch. float32 [L, T] by position, [L, H] by head

    Raises InputError if the runs cannot be patched.
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
    """Estimate the forward passes and the tokens read; each pass starts at the patched layer, so it counts as half."""
    places = scene.model.config.n_head if settings.by == "head" else len(scene.tokens)
    runs = scene.model.config.n_layer * places / 2
    return runs, runs * len(scene.tokens)


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
        uses=("other", "target"),
        beside=run_b.beside,
        question=question_of,
        cost=cost,
    ),
    OFFERED,
)
