"""The training of a reward model as one task for a separate process: pairs, training, and the saved result.

Inputs and outputs are plain values and files, so that neither process keeps the other's weights in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from model.alignment.four_prompts import FourChoices, best_four
from model.alignment.preferences import PROMPTS, Pair, PairSettings, Split, pairs_by_rule, split
from model.alignment.reward_folder import fingerprint, save_reward
from model.alignment.reward_model import (
    Calibration,
    Look,
    RewardModel,
    RewardRecipe,
    calibration,
    pair_ids,
    train,
)
from model.alignment.reward_reading import extremes
from model.alignment.rewards import Rule
from model.api import LanguageModel, load_resolved
from model.errors import InputError
from model.free_memory import keep_freed_memory
from model.loading.sources import Resolved
from model.progress import Progress
from model.training.jobs.job import Limits

LEAST_PAIRS = 4  # minimum number of pairs
SHOWN = 5  # maximum number of texts with the highest, and with the lowest, reward
WHOLE = 1000  # units of the progress bar
WRITING = 400  # units for generating the texts that a rule compares, if any


@dataclass(frozen=True)
class RewardLesson:
    """Settings of the task, as plain values."""

    source: Resolved  # the base model, which is not changed
    recipe: RewardRecipe
    folder: Path  # output folder, for model.alignment.reward_folder.load_reward
    name: str
    pairs: tuple[Pair, ...] = ()
    rules: tuple[Rule, ...] = ()  # instead of pairs: the model generates texts, and these rules choose
    ask: PairSettings = field(default_factory=PairSettings)  # settings for generating them


@dataclass(frozen=True)
class ScoredText:
    """A held-out text with its prompt and reward."""

    prompt: str
    text: str
    reward: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class RewardLearned:
    """A trained reward model, and its results on held-out pairs."""

    recipe: RewardRecipe
    weight: np.ndarray  # [D] float32
    bias: float
    looks: tuple[Look, ...]
    margins: np.ndarray  # r_chosen - r_rejected of the held-out pairs; float32 [n]
    calibrated: Calibration
    deviation: float  # standard deviation of the rewards of the held-out texts
    best: tuple[ScoredText, ...]
    worst: tuple[ScoredText, ...]
    pairs: int
    held_out: int
    by: str  # "prompt" or "pair": the held-out unit
    ties: int
    dropped: int
    four: FourChoices  # the best of several texts per prompt by this model


def check(recipe: RewardRecipe, n_params: int, limits: Limits) -> None:
    """Raise InputError for a model with too many parameters to be trained in full, or to be loaded for training, on
    this server.
    """
    if recipe.body and n_params > limits.full_parameters:
        hint = "Train only the readout, or choose a smaller model."
        raise InputError("This model is too large to be trained in full on this server.", f"{n_params:,}", hint)
    if n_params > limits.adapted_parameters:
        got = f"{n_params:,} parameters"
        raise InputError("This model is too large to be trained on this server.", got, "Choose a smaller model.")


def learn(lesson: RewardLesson, tell: Callable[[int], None]) -> RewardLearned:
    """Train the reward model and write it to its folder. `tell` receives the progress, from 0 to WHOLE.

    Raises InputError for fewer than LEAST_PAIRS pairs, and as `pairs_by_rule` and `train` do.
    """
    keep_freed_memory()
    lm = load_resolved(lesson.source)
    recipe, pairs, ties, begun = lesson.recipe, lesson.pairs, 0, 0
    if lesson.rules:
        generated = pairs_by_rule(lm, PROMPTS, lesson.rules, lesson.ask, portion(tell, 0, WRITING))
        pairs, ties, begun = generated.pairs, generated.ties, WRITING
    if len(pairs) < LEAST_PAIRS:
        raise InputError("There are too few pairs to learn from.", str(len(pairs)), "Choose a few more.")
    apart = split(pairs, recipe.held_out, recipe.seed)
    trained = train(lm, apart, recipe, portion(tell, begun, WHOLE))
    weights = fingerprint(lm.model)
    save_reward(lesson.folder, trained.reward, name=lesson.name, base=lm.id, body=recipe.body, weights=weights)
    rewards, scored = texts_told(lm, apart, trained.reward)
    ends = extremes(rewards, max(1, min(SHOWN, len(rewards) // 2)))
    best, worst = (tuple(scored[at] for at in chosen) for chosen in ends)
    return RewardLearned(
        recipe=recipe,
        weight=trained.reward.weight.numpy(),
        bias=float(trained.reward.bias),
        looks=trained.looks,
        margins=trained.margins,
        calibrated=calibration(trained.margins),
        deviation=float(rewards.std(dtype="float64")),
        best=best,
        worst=worst,
        pairs=len(pairs),
        held_out=len(apart.held_out),
        by=apart.by,
        ties=ties,
        dropped=trained.dropped,
        four=best_four(lm.model, lm.tokenizer, lambda ids: trained.reward.score_ids(ids).tolist()),
    )


def portion(tell: Callable[[int], None], start: int, end: int) -> Progress:
    """Return a progress callback that maps one stage of the task to the units from `start` to `end`."""
    return lambda done, total, what: tell(start + (end - start) * done // (total or 1))


def texts_told(lm: LanguageModel, apart: Split, reward: RewardModel) -> tuple[np.ndarray, list[ScoredText]]:
    """Score the texts of the n held-out pairs that fit into the context. Returns their rewards [2 n] and the scored
    texts.
    """
    fitting = [pair for pair in apart.held_out if pair_ids(lm, [pair])]
    rewards = reward.score_ids([ids for both in pair_ids(lm, fitting) for ids in both]).numpy()
    texts = [(pair, text) for pair in fitting for text in (pair.chosen, pair.rejected)]
    scored = [
        ScoredText(pair.prompt, text, float(value), text == pair.chosen)
        for (pair, text), value in zip(texts, rewards, strict=True)
    ]
    return rewards, scored
