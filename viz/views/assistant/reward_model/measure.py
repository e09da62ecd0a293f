"""Measurements of the reward model view: training in a separate process, and the rewards along the prompt."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from model.alignment.preferences import PairSettings
from model.alignment.reward_lesson import WHOLE, RewardLearned, RewardLesson, check, learn
from model.alignment.reward_model import RewardModel, RewardRecipe, accuracy
from model.alignment.reward_reading import Changed, change_words
from model.alignment.rewards import parse_rules
from model.api import LanguageModel
from model.errors import InputError
from model.loading.sources import Resolved
from model.progress import Progress
from model.records import Tokens
from viz.labels import visible
from viz.numbers import percent
from viz.seam.jobs import stored_runs
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.work.processes.trial_process import run_alone

WORDS = 24  # maximum number of prompt words that are changed individually
NEW_TOKENS = 24  # length in tokens of a text that a rule judges
LONGEST_NAME = 60  # maximum number of characters of the rules in a reward model's name


@dataclass(frozen=True, eq=False)
class Learned:
    """A trained reward model: its id and name on the visitor's shelf, and the training results."""

    id: str  # id on the visitor's shelf
    name: str
    outcome: RewardLearned


@dataclass(frozen=True, eq=False)
class RewardReading:
    """The reward model's outputs on the prompt."""

    text: str  # the prompt
    pieces: tuple[str, ...]
    along: np.ndarray  # reward of the text up to each token. float32 [T]
    deviation: float  # standard deviation of the held-out texts' rewards, which scales the colors
    changed: Changed | None  # None for a prompt without words


@dataclass(frozen=True, eq=False)
class RewardRun:
    """The reward model that the view shows: the visitor's own, or the stored one with its own prompt."""

    learned: Learned
    reading: RewardReading
    stored: bool


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the training settings together with the visitor, since a reward model belongs to one visitor only."""
    chosen = settings if settings.source == "page" else settings.but(pairs=())
    return Settings((*chosen.items_, ("visitor", scene.visitor)))


def measure_reward(scene: Scene, settings: Settings, progress: Progress) -> Learned:
    """Train the reward model in a separate process, and put it on the visitor's shelf."""
    playground, chosen = scene.playground, settings.learns
    playground.workshop.check_open()
    by_rule = settings.source == "rule"
    source = (settings.rule if by_rule else scene.words["reward_model.kept.own"])[:LONGEST_NAME]
    with playground.rewards.place() as folder:
        lesson = lesson_of(settings, playground.weights_of(scene.model.id), folder, source)
        check(lesson.recipe, scene.model.n_params, playground.workshop.limits)
        outcome = run_alone(playground.workshop, learn, (lesson,), WHOLE, progress)
        share = accuracy(outcome.margins)
        name = scene.words[f"reward_model.kept.{chosen}"].format(source=source, share=percent(share))
        kept = playground.rewards.keep(settings.visitor, folder, name, share)
    return Learned(kept.id, kept.name, outcome)


def lesson_of(settings: Settings, base: Resolved, folder: Path, name: str) -> RewardLesson:
    """Build the training of a reward model from the settings."""
    by_rule = settings.source == "rule"
    rules, pairs = (parse_rules(settings.rule), ()) if by_rule else ((), settings.pairs)
    recipe = RewardRecipe(body=settings.learns == "body", steps=int(settings.steps), seed=settings.seed)
    ask = PairSettings(int(settings.count), NEW_TOKENS, 1.0, settings.seed)
    return RewardLesson(base, recipe, folder, name, pairs, rules, ask)


def measure_run(scene: Scene, settings: Settings, results: dict) -> RewardRun:
    """Compute the reward at each token of the prompt, and after changes of single words; return the stored run until a
    reward model is trained.
    """
    learned = results["trained"]
    if learned is None:
        outcome, reading = (stored_runs.read("reward_model").value[name] for name in ("outcome", "reading"))
        return RewardRun(Learned("", "", outcome), reading, True)
    reading = read_prompt(scene.model, scene.tokens, reward_of(scene, learned), learned.outcome, settings.word)
    return RewardRun(learned, reading, False)


def read_prompt(
    model: LanguageModel, tokens: Tokens, reward: RewardModel, outcome: RewardLearned, word: str
) -> RewardReading:
    """Compute the reward at each token of a prompt, and after each of its words is deleted or replaced by `word`."""
    text, changed = b"".join(tokens.raw).decode("utf-8", "replace"), None
    with contextlib.suppress(InputError):  # raised for a prompt without words
        changed = change_words(reward, lambda text: model.encode(text).ids.tolist(), text, word.strip(), most=WORDS)
    pieces = tuple(visible(piece) for piece in tokens.pieces)
    return RewardReading(text, pieces, reward.along(tokens.ids.tolist()).numpy(), outcome.deviation, changed)


def reward_of(scene: Scene, learned: Learned) -> RewardModel:
    """Load the trained reward model. Raises InputError if it is no longer on the shelf."""
    outcome, playground = learned.outcome, scene.playground
    if not outcome.recipe.body:
        return RewardModel(scene.model.model, torch.from_numpy(outcome.weight), torch.tensor(outcome.bias))
    kept = playground.rewards.find(scene.visitor, learned.id)
    return playground.models.get(
        ("reward", kept.id), lambda: playground.rewards.load(kept.owner, kept.id, scene.model.model)
    )
