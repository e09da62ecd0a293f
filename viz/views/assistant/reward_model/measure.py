"""Reward model: trained on pairs, kept for who trained it, and what it reads in the prompt."""

import contextlib
from dataclasses import dataclass

import numpy as np
import torch

from model.alignment.preferences import PROMPTS, Ask, Split, pairs_by_rule, split
from model.alignment.reward_model import (
    Calibration,
    Look,
    RewardModel,
    RewardRecipe,
    accuracy,
    calibration,
    pair_ids,
    train,
)
from model.alignment.reward_reading import Changed, change_words, extremes
from model.alignment.rewards import parse_rules
from model.errors import InputError
from model.progress import Progress
from viz.labels import visible
from viz.numbers import percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import Settings

MOST_BODY = 40_000_000  # parameters of a model that learns as a whole
LEAST_PAIRS = 4
WORDS = 24  # of the prompt that are changed one by one
SHOWN = 5  # texts of the highest and of the lowest reward
NEW_TOKENS = 24  # of a text that a rule judges


@dataclass(frozen=True, eq=False)
class Told:
    """A held-out text with its reward."""

    prompt: str
    text: str
    reward: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class Learned:
    """A reward model that was trained, and how well it does on held-out pairs."""

    id: str  # on the visitor's shelf
    name: str
    recipe: RewardRecipe
    weight: np.ndarray  # [D] float32
    bias: float
    looks: tuple[Look, ...]
    margins: np.ndarray  # of the held-out pairs. float32 [n]
    calibrated: Calibration
    deviation: float  # of the rewards of held-out texts
    best: tuple[Told, ...]
    worst: tuple[Told, ...]
    pairs: int
    held_out: int
    by: str  # "prompt" or "pair": what was held out
    ties: int
    dropped: int


@dataclass(frozen=True, eq=False)
class Read:
    """The prompt as the reward model reads it."""

    pieces: tuple[str, ...]
    along: np.ndarray  # reward if the text ended at each token. float32 [T]
    deviation: float  # of the rewards of held-out texts: the scale of the colours
    changed: Changed | None  # None for a prompt without words


def question(scene: Scene, settings: Settings) -> Settings:
    """What is trained, and for whom: it is kept for that visitor alone."""
    chosen = settings if settings.source == "page" else settings.but(pairs=())
    return Settings((*chosen.items_, ("visitor", scene.visitor)))


def measure_reward(scene: Scene, settings: Settings, progress: Progress) -> Learned:
    """Make the pairs where a rule makes them, train, and put the reward model on the visitor's shelf."""
    recipe = RewardRecipe(body=settings.learns == "body", steps=int(settings.steps), seed=settings.seed)
    check_body(scene, recipe)
    pairs, ties = settings.pairs, 0
    by_rule = settings.source == "rule"
    if by_rule:
        rules = parse_rules(settings.rule)
        ask = Ask(int(settings.count), NEW_TOKENS, 1.0, settings.seed)
        made = pairs_by_rule(scene.model, PROMPTS, rules, ask, portion(progress, 0, 400))
        pairs, ties = made.pairs, made.ties
    if len(pairs) < LEAST_PAIRS:
        raise InputError("There are too few pairs to learn from.", str(len(pairs)), "Choose a few more.")
    apart = split(pairs, recipe.held_out, recipe.seed)
    found = train(scene.model, apart, recipe, portion(progress, 400 if by_rule else 0, 1000))
    share = accuracy(found.margins)
    source = settings.rule if by_rule else scene.words["reward_model.kept.own"]
    name = scene.words[f"reward_model.kept.{settings.learns}"].format(source=source[:60], share=percent(share))
    kept = scene.playground.rewards.put(
        settings.visitor, found.reward, name, scene.model.id, recipe.body, share, scene.model.model
    )
    rewards, told = texts_told(scene, apart, found.reward)
    best, worst = (
        tuple(told[at] for at in chosen) for chosen in extremes(rewards, max(1, min(SHOWN, len(rewards) // 2)))
    )
    return Learned(
        kept.id,
        kept.name,
        recipe,
        found.reward.weight.numpy(),
        float(found.reward.bias),
        found.looks,
        found.margins,
        calibration(found.margins),
        float(rewards.std()),
        best,
        worst,
        len(pairs),
        len(apart.held_out),
        apart.by,
        ties,
        found.dropped,
    )


def check_body(scene: Scene, recipe: RewardRecipe) -> None:
    """Raise InputError where this server trains nothing, or the model is too large to learn as a whole."""
    if recipe.body:
        scene.playground.workshop.check_open()
        if scene.model.n_params > MOST_BODY:
            hint = "Train the readout alone, or choose a smaller model."
            raise InputError("This model is too large to learn as a whole here.", whole(scene.model.n_params), hint)


def portion(progress: Progress, start: int, end: int) -> Progress:
    """Progress of one part of the work, from `start` to `end` thousandths."""
    return lambda done, total, what: progress(start + (end - start) * done // (total or 1), 1000, what)


def texts_told(scene: Scene, apart: Split, reward: RewardModel) -> tuple[np.ndarray, list[Told]]:
    """The held-out texts with their rewards. [2 n], 2 n of them"""
    fitting = [pair for pair in apart.held_out if pair_ids(scene.model, [pair])]
    rewards = reward.score_ids([ids for both in pair_ids(scene.model, fitting) for ids in both]).numpy()
    texts = [(pair, text) for pair in fitting for text in (pair.chosen, pair.rejected)]
    told = [
        Told(pair.prompt, text, float(value), text == pair.chosen)
        for (pair, text), value in zip(texts, rewards, strict=True)
    ]
    return rewards, told


def measure_prompt(scene: Scene, settings: Settings, results: dict) -> Read | None:
    """The reward along the prompt, and with its words changed."""
    found = results["trained"]
    if found is None:
        return None
    reward, encode = reward_of(scene, found), lambda text: scene.model.encode(text).ids.tolist()
    ids, changed = scene.tokens.ids.tolist(), None
    text = b"".join(scene.tokens.raw).decode("utf-8", "replace")
    with contextlib.suppress(InputError):  # a prompt without words
        changed = change_words(reward, encode, text, settings.word.strip(), most=WORDS)
    pieces = tuple(visible(piece) for piece in scene.tokens.pieces)
    return Read(pieces, reward.along(ids).numpy(), found.deviation, changed)


def reward_of(scene: Scene, found: Learned) -> RewardModel:
    """The trained reward model; raises InputError where it is no longer on the shelf."""
    weight, bias = torch.from_numpy(found.weight), torch.tensor(found.bias)
    if not found.recipe.body:
        return RewardModel(scene.model.model, weight, bias)
    playground = scene.playground
    kept = playground.rewards.find(scene.visitor, found.id)
    return playground.models.get(
        ("reward", kept.id), lambda: playground.rewards.load(kept.owner, kept.id, scene.model.model)
    )
