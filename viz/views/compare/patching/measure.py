"""Which tokens tell run A and run B apart, and what a vector or a head of one does to their difference in the other."""

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
from viz.views.compare.run_b import Other, Refused
from viz.words import Words

BY = ("position", "head")  # what is patched alone: a vector of one layer and token, or one head
WHERE = ("all", "picked")  # the positions at which a head is patched
INTO = ("b", "a")  # which run receives the other's vectors
MOST_PLACES = 16_384  # layers x tokens of a map
SMALLEST_GAP = 1e-3  # logits; shares of less say nothing
SETTINGS = (
    Choice("by", BY),
    Choice("site", PATCH_SITES, when={"by": ("position",)}),
    Choice("where", WHERE, when={"by": ("head",)}),
    Choice("into", INTO),
)


@dataclass(frozen=True)
class Watched:
    """The number that is watched: the difference of two tokens' logits after the last position."""

    token: int
    distractor: int
    a: float  # the difference in run A
    b: float

    @property
    def target(self) -> Target:
        """The same for the model's code."""
        return Target("difference", -1, self.token, self.distractor)

    def ends(self, into: str) -> tuple[float, float]:
        """Return the difference in the run that vectors are taken from, and in the one that they are put into."""
        return (self.a, self.b) if into == "b" else (self.b, self.a)


@dataclass(frozen=True)
class Unfit:
    """Why one run cannot be patched into the other: a word of the view, and what is filled in."""

    word: str
    a: int = 0
    b: int = 0

    def sentence(self, words: Words) -> str:
        """In the reader's words."""
        sentence = words[self.word].format(a=self.a, b=self.b, n=self.a)
        return f"{sentence} {words.get(f'{self.word}_hint') or ''}".strip()


def first_difference(a: Tokens, b: Tokens) -> int | None:
    """Return the first position at which two runs of one length have other tokens; None where all are the same."""
    differ = np.flatnonzero(a.ids != b.ids)
    return int(differ[0]) if len(differ) else None


def question_of(scene: Scene, settings: Settings) -> Settings:
    """Return the same for settings that mean the same: a site counts by position, where a head is patched by head.

    `where` is then the picked position, None for all of them.
    """
    chosen = run_b.whole(scene, settings)
    if chosen.by == "position":
        return chosen.but(where=None)
    chosen = chosen.but(where=scene.position if chosen.where == "picked" else None)
    return chosen.but(site=None) if "site" in chosen else chosen


def measure_usual(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return two tokens that tell the runs apart: the likeliest next one of A and of B.

    Where that is the same one, those whose probability is highest in A against B, and in B against A. None without a
    run B of the same model.
    """
    other: Other | Refused = results["other"]
    if isinstance(other, Refused) or not other.same_model:
        return None
    size = scene.model.tokenizer.vocab_size
    a, b = (softmax(trace.logits_at(-1)[:size]) for trace in _runs(scene, settings))
    first, second = likeliest(a, 1)[0], likeliest(b, 1)[0]
    return (first, second) if first != second else (likeliest(a - b, 1)[0], likeliest(b - a, 1)[0])


def measure_target(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Watched | Unfit:
    """Return the number that is watched, or why there is none."""
    other: Other | Refused = results["other"]
    if unfit := _unfit(scene, other, settings):
        return unfit
    a, b = _runs(scene, settings)
    tokens = watched(scene, results["usual"])
    if tokens[0] == tokens[1]:
        return Unfit("same_token")
    target = Target("difference", -1, *tokens)
    ends = metric(a, target), metric(b, target)
    return Unfit("no_gap") if abs(ends[0] - ends[1]) < SMALLEST_GAP else Watched(*tokens, *ends)


def _unfit(scene: Scene, other: Other | Refused, question: Settings) -> Unfit | None:
    """Why vectors of the two runs cannot take each other's place."""
    if isinstance(other, Refused):
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
    """Target and distractor: those that were picked, beside one of them whichever usual one is another token."""
    target, other = scene.picked.target, scene.picked.distractor
    if target is None:
        target = next(token for token in usual if token != other)
    return target, next(token for token in usual[::-1] if token != target) if other is None else other


def measure_patch(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> np.ndarray:
    """Return the change of the watched number by each vector of one run, put into the other. float32 [L, T], by head
    [L, H]

    Raises InputError where the runs do not fit.
    """
    target: Watched | Unfit = results["target"]
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "patching")))
    a, b = _runs(scene, settings)
    clean, corrupted = (a, b) if settings.into == "b" else (b, a)
    if settings.by == "head":
        return patch_heads(clean, corrupted, target.target, settings.where, progress)
    return patch(clean, corrupted, target.target, settings.site, progress)


def _runs(scene: Scene, settings: Settings) -> tuple[Trace, Trace]:
    """Run A and run B."""
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
        question=run_b.whole,
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
    ),
    OFFERED,
)
