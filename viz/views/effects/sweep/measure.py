"""A sweep over all heads: the watched number, and its change when each head is replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.effects import ABLATIONS, TARGETS, Target, metric, sweep
from model.errors import InputError
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.selection import WATCHED
from viz.seam.settings import Choice, Settings
from viz.seam.targets import OFFERED
from viz.seam.view import Measure
from viz.words import Words

SETTINGS = (Choice("how", ABLATIONS), Choice("kind", tuple(TARGETS)))
_NAMES = tuple(each.name for each in SETTINGS)


@dataclass(frozen=True)
class Unfit:
    """The reason why no number can be watched: a word of the view."""

    word: str

    def sentence(self, words: Words) -> str:
        """Return the reason in the reader's language. `words` are those of the view."""
        return words[self.word]


@dataclass(frozen=True, eq=False)
class Swept:
    """The result of a sweep."""

    start: float  # the number before any head is replaced
    effects: np.ndarray  # [L, H]


def roles(kind: str) -> tuple[str, ...]:
    """Return the roles of the selected tokens that a kind of number depends on."""
    needs = TARGETS[kind].needs
    return tuple(role for role, name in zip(WATCHED, ("token", "distractor"), strict=True) if name in needs)


def question_of(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the watched number: its kind, and the position and selected tokens that it depends on."""
    shown = roles(settings.kind)
    tokens = tuple((role, getattr(scene.picked, role) if role in shown else None) for role in WATCHED)
    position = -1 if settings.kind == "loss" else scene.position
    return Settings((("kind", settings.kind), ("position", position), *tokens))


def sweep_question(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the watched number and the replacement of the heads."""
    return Settings((("how", settings.how), *question_of(scene, settings).items_))


def measure_target(scene: Scene, question: Settings) -> Target | Unfit:
    """Return the watched number, or the reason why it cannot be watched.

    The default target is the most likely next token without edits, the default distractor the most likely other one.
    """
    needs = TARGETS[question.kind].needs
    if question.kind == "loss":
        return Target("loss") if len(scene.tokens) > 1 else Unfit("too_short")
    if not needs:
        return Target(question.kind, question.position)
    likely = likeliest(scene.unedited.logits_at(question.position)[: scene.model.tokenizer.vocab_size], 2)
    token = likely[0] if question.target is None else question.target
    if "distractor" not in needs:
        return Target(question.kind, question.position, token)
    other = question.distractor
    if other is None:
        other = next(number for number in likely if number != token)
    return Unfit("same_token") if other == token else Target(question.kind, question.position, token, other)


def measure_sweep(scene: Scene, question: Settings, results: Mapping[str, Any], progress: Progress) -> Swept:
    """Replace every head in turn; raises InputError if no number can be watched."""
    target: Target | Unfit = results["target"]
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "sweep")))
    return Swept(metric(scene.trace, target), sweep(scene.trace, question.how, target, progress))


def cost(scene: Scene, question: Settings) -> tuple[float, float]:
    """Estimate the forward passes, one per head, and the tokens read."""
    runs = scene.model.config.n_layer * scene.model.config.n_head
    return runs, runs * len(scene.tokens)


MEASURES = (
    Measure("target", measure_target, ("plain",), _NAMES, question=question_of),
    Measure("sweep", measure_sweep, ("run",), _NAMES, slow=True, question=sweep_question, uses=("target",), cost=cost),
    OFFERED,
)
