"""An ablation sweep over all heads: the target metric, and its change when each head is ablated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.effects import ABLATIONS, TARGETS, Target, metric, replacement_cost, sweep
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
    """The reason why the target metric is undefined: a word key of the view."""

    word: str

    def sentence(self, words: Words) -> str:
        """Return the reason in the reader's language. `words` are those of the view."""
        return words[self.word]


@dataclass(frozen=True, eq=False)
class Swept:
    """The target metric and its changes in an ablation sweep."""

    start: float  # target metric before any head is ablated
    effects: np.ndarray  # changes of the target metric, [L, H]


def roles(kind: str) -> tuple[str, ...]:
    """Return the roles of the selected tokens on which a kind of target metric depends."""
    needs = TARGETS[kind].needs
    return tuple(role for role, name in zip(WATCHED, ("token", "distractor"), strict=True) if name in needs)


def question_of(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the target metric: its kind, and the position and selected tokens on which it depends."""
    shown = roles(settings.kind)
    tokens = tuple((role, getattr(scene.picked, role) if role in shown else None) for role in WATCHED)
    position = -1 if settings.kind == "loss" else scene.position
    return Settings((("kind", settings.kind), ("position", position), *tokens))


def sweep_question(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the target metric and the ablation."""
    return Settings((("how", settings.how), *question_of(scene, settings).items_))


def measure_target(scene: Scene, question: Settings) -> Target | Unfit:
    """Return the target metric, or the reason why it is undefined.

    The default target is the most likely next token without edits. The default distractor is the most likely other
    token.
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
    """Ablate every head in turn; raises InputError if the target metric is undefined."""
    target: Target | Unfit = results["target"]
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "sweep")))
    return Swept(metric(scene.trace, target), sweep(scene.trace, question.how, target, progress))


def cost(scene: Scene, question: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens of the sweep."""
    config = scene.model.config
    return replacement_cost(config.n_layer, config.n_head, len(scene.tokens))


MEASURES = (
    Measure("target", measure_target, ("plain",), _NAMES, question=question_of),
    Measure("sweep", measure_sweep, ("run",), _NAMES, slow=True, question=sweep_question, uses=("target",), cost=cost),
    OFFERED,
)
