"""Measurements of the reward model view: training in a separate process, and the rewards along the prompt."""

import contextlib
from dataclasses import dataclass

import numpy as np
import torch

from model.alignment.preferences import PairSettings
from model.alignment.reward_lesson import WHOLE, RewardLearned, RewardLesson, check, learn
from model.alignment.reward_model import RewardModel, RewardRecipe, accuracy
from model.alignment.reward_reading import Changed, change_words
from model.alignment.rewards import parse_rules
from model.errors import InputError
from model.progress import Progress
from viz.labels import visible
from viz.numbers import percent
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

    pieces: tuple[str, ...]
    along: np.ndarray  # reward of the text up to each token. float32 [T]
    deviation: float  # standard deviation of the held-out texts' rewards, which scales the colors
    changed: Changed | None  # None for a prompt without words


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the training settings together with the visitor, since a reward model belongs to one visitor only."""
    chosen = settings if settings.source == "page" else settings.but(pairs=())
    return Settings((*chosen.items_, ("visitor", scene.visitor)))


def measure_reward(scene: Scene, settings: Settings, progress: Progress) -> Learned:
    """Train the reward model in a separate process, and put it on the visitor's shelf."""
    playground, chosen = scene.playground, settings.learns
    recipe = RewardRecipe(body=chosen == "body", steps=int(settings.steps), seed=settings.seed)
    playground.workshop.check_open()
    check(recipe, scene.model.n_params, playground.workshop.limits)
    by_rule = settings.source == "rule"
    rules, pairs = (parse_rules(settings.rule), ()) if by_rule else ((), settings.pairs)
    ask = PairSettings(int(settings.count), NEW_TOKENS, 1.0, settings.seed)
    source = (settings.rule if by_rule else scene.words["reward_model.kept.own"])[:LONGEST_NAME]
    with playground.rewards.place() as folder:
        base = playground.weights_of(scene.model.id)
        lesson = RewardLesson(base, recipe, folder, source, pairs, rules, ask)
        outcome = run_alone(playground.workshop, learn, (lesson,), WHOLE, progress)
        share = accuracy(outcome.margins)
        name = scene.words[f"reward_model.kept.{chosen}"].format(source=source, share=percent(share))
        kept = playground.rewards.keep(settings.visitor, folder, name, share)
    return Learned(kept.id, kept.name, outcome)


def measure_prompt(scene: Scene, settings: Settings, results: dict) -> RewardReading | None:
    """Compute the reward at each token of the prompt, and the reward after changes of single words."""
    learned = results["trained"]
    if learned is None:
        return None
    reward, encode = reward_of(scene, learned), lambda text: scene.model.encode(text).ids.tolist()
    ids, changed = scene.tokens.ids.tolist(), None
    text = b"".join(scene.tokens.raw).decode("utf-8", "replace")
    with contextlib.suppress(InputError):  # raised for a prompt without words
        changed = change_words(reward, encode, text, settings.word.strip(), most=WORDS)
    pieces = tuple(visible(piece) for piece in scene.tokens.pieces)
    return RewardReading(pieces, reward.along(ids).numpy(), learned.outcome.deviation, changed)


def reward_of(scene: Scene, learned: Learned) -> RewardModel:
    """Load the trained reward model. Raises InputError if it is no longer on the shelf."""
    outcome, playground = learned.outcome, scene.playground
    if not outcome.recipe.body:
        return RewardModel(scene.model.model, torch.from_numpy(outcome.weight), torch.tensor(outcome.bias))
    kept = playground.rewards.find(scene.visitor, learned.id)
    return playground.models.get(
        ("reward", kept.id), lambda: playground.rewards.load(kept.owner, kept.id, scene.model.model)
    )
