"""Every head in turn: the number that is watched, and what it changes by when a head is replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.api import LanguageModel
from model.attention.effects import ABLATIONS, TARGETS, Target, metric, sweep
from model.errors import InputError
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text
from viz.seam.typed import MOST_TYPED, not_one, token_of
from viz.seam.view import Measure
from viz.words import Words

_TOKENS = ("token", "distractor")


def _needing(name: str) -> tuple[str, ...]:
    """The targets that read a token."""
    return tuple(key for key, kind in TARGETS.items() if name in kind.needs)


SETTINGS = (
    Choice("how", ABLATIONS),
    Choice("kind", tuple(TARGETS)),
    *(Text(name, max_length=MOST_TYPED, when={"kind": _needing(name)}) for name in _TOKENS),
)
_NAMES = tuple(each.name for each in SETTINGS)


@dataclass(frozen=True)
class Unfit:
    """Why there is no number to watch: a word of the view, or "" for a text that is not one token but these."""

    word: str
    typed: str = ""
    pieces: tuple[str, ...] = ()

    def sentence(self, words: Words) -> str:
        """In the reader's words, which are those of the view."""
        return words[self.word] if self.word else not_one(words.catalogue, self.typed, self.pieces)


@dataclass(frozen=True, eq=False)
class Swept:
    """The result of a sweep."""

    start: float  # the number before any head is replaced
    effects: np.ndarray  # [L, H]


def question_of(scene: Scene, settings: Settings) -> Settings:
    """The target of the number: the position and the tokens that its kind reads, as ids where they are tokens."""
    needs = TARGETS[settings.kind].needs
    tokens = tuple((name, _token(scene.model, settings[name]) if name in needs else "") for name in _TOKENS)
    position = -1 if settings.kind == "loss" else scene.position
    return Settings((("kind", settings.kind), ("position", position), *tokens))


def sweep_question(scene: Scene, settings: Settings) -> Settings:
    """The same, and what every head is replaced by."""
    return Settings((("how", settings.how), *question_of(scene, settings).items_))


def _token(model: LanguageModel, typed: str | int) -> str | int:
    """The token that a text is; the text where it is none. A program names a token by its id."""
    if not typed or isinstance(typed, int):
        return typed
    token, _ = token_of(model, typed)
    return typed if token is None else token


def measure_target(scene: Scene, question: Settings) -> Target | Unfit:
    """The number that is watched, or why there is none.

    An empty target is the likeliest next token without edits, an empty distractor the likeliest other one.
    """
    needs = TARGETS[question.kind].needs
    if question.kind == "loss":
        return Target("loss") if len(scene.tokens) > 1 else Unfit("too_short")
    if not needs:
        return Target(question.kind, question.position)
    for name in needs:
        if question[name] and isinstance(question[name], str):
            return Unfit("", question[name], tuple(token_of(scene.model, question[name])[1]))
    likely = likeliest(scene.unedited.logits_at(question.position)[: scene.model.tokenizer.vocab_size], 2)
    token = likely[0] if question.token == "" else question.token
    if "distractor" not in needs:
        return Target(question.kind, question.position, token)
    other = next(number for number in likely if number != token) if question.distractor == "" else question.distractor
    return Unfit("same_token") if other == token else Target(question.kind, question.position, token, other)


def measure_sweep(scene: Scene, question: Settings, results: Mapping[str, Any], progress: Progress) -> Swept:
    """Every head replaced in turn; raises InputError where there is no number to watch."""
    target: Target | Unfit = results["target"]
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "sweep")))
    return Swept(metric(scene.trace, target), sweep(scene.trace, question.how, target, progress))


MEASURES = (
    Measure("target", measure_target, ("plain",), _NAMES, question=question_of),
    Measure("sweep", measure_sweep, ("run",), _NAMES, slow=True, question=sweep_question, uses=("target",)),
)
