"""Reward model: trained on pairs of texts, what it gives to a text, and which words it looks at."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np
import torch

from model.alignment.preferences import PROMPTS, Ask, Pair, Split, pairs_by_rule, split
from model.alignment.reward_model import (
    Calibration,
    Look,
    RewardModel,
    RewardRecipe,
    accuracy,
    calibration,
    interval,
    pair_ids,
    train,
)
from model.alignment.reward_reading import Changed, change_words, extremes
from model.alignment.rewards import parse_rules
from model.errors import InputError, PlaygroundError
from model.progress import Progress
from viz.labels import visible
from viz.numbers import nats, percent, signed, whole
from viz.seam.notices import notice
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.theme import SIGNED_RAMPS
from viz.views.assistant.preferences.view import read_listed
from viz.views.assistant.reward_model.figures import calibration_figure, curve_figure, words_figure

MOST_BODY = 40_000_000  # parameters of a model that learns as a whole
LEAST_PAIRS = 4
WORDS = 24  # of the prompt that are changed one by one
SHOWN = 5  # texts of the highest and of the lowest reward
NEW_TOKENS = 24  # of a text that a rule judges


def as_it_is(words, option: str) -> str:
    """An option that is a number is its own label."""
    return option


SOURCE = Choice("source", ("rule", "page"))
RULE = Text("rule", "sentiment", max_length=600, when={"source": ("rule",)})
COUNT = Choice("count", ("10", "20", "40"), default="40", label=as_it_is, when={"source": ("rule",)})
LEARNS = Choice("learns", ("body", "head"))
STEPS = Choice("steps", ("20", "40", "80"), default="40", label=as_it_is)
SEED = Number("seed", 0, 1_000_000, 0)
WORD = Text("word", "happy", max_length=40)
TRAINING = (SOURCE, RULE, COUNT, LEARNS, STEPS, SEED)


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


# --- measures ---


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


# --- what is drawn ---


def used(seen: Seen) -> Payload:
    """What the page's own pairs are for."""
    return {"words": seen.here.plain(), "least": LEAST_PAIRS, "wanted": seen.settings.source == "page"}


def read_used(sent: object, scene: Scene) -> tuple[Pair, ...]:
    """The page's own pairs."""
    return read_listed(sent)


def start(seen: Seen) -> Payload:
    """What is trained on what; or why it cannot start."""
    words, chosen = seen.here, seen.settings
    try:
        if chosen.source == "rule":
            parse_rules(chosen.rule)
        elif len(chosen.pairs) < LEAST_PAIRS:
            return {"text": words["few"].format(n=len(chosen.pairs), least=LEAST_PAIRS), "unready": True}
        if chosen.learns == "body" and seen.facts.n_params > MOST_BODY:
            return {"text": words["large"], "unready": True}
    except PlaygroundError as error:
        shown = notice(error, seen.facts.language)
        return {"text": f"{shown['text']} {shown['hint']}", "unready": True}
    count = len(PROMPTS) * int(chosen.count)
    source = (
        words["by_rule"].format(n=whole(count))
        if chosen.source == "rule"
        else words["by_page"].format(n=whole(len(chosen.pairs)))
    )
    return {"text": f"{source} {words[chosen.learns].format(steps=chosen.steps)}"}


def _python(seen: Seen, line: str) -> str:
    chosen, found = seen.settings, seen.results["trained"]
    made = "pairs = read_pairs(Path('pairs.jsonl').read_text())  # saved on the page"
    if chosen.source == "rule":
        ask = Ask(int(chosen.count), NEW_TOKENS, 1.0, chosen.seed)
        made = f"pairs = pairs_by_rule(lm, PROMPTS, parse_rules({chosen.rule!r}), {ask!r}).pairs"
    imports = [
        "from pathlib import Path",
        "from model.alignment.preferences import PROMPTS, Ask, pairs_by_rule, read_pairs, split",
        "from model.alignment.reward_model import RewardRecipe, calibration, train",
        "from model.alignment.reward_reading import change_words",
        "from model.alignment.rewards import parse_rules",
    ]
    recipe = found.recipe
    lines = [f"recipe = {recipe!r}", "found = train(lm, split(pairs, recipe.held_out, recipe.seed), recipe)"]
    return model_script(seen.facts, [made, *lines, line], imports)


def _curve(seen: Seen, field: str, form: str, reference: float) -> Payload:
    words, found = seen.here, seen.result
    series = {
        words["train"]: [getattr(look, field) for look in found.looks],
        words["held_out"]: [getattr(look, f"held_out_{field}") for look in found.looks],
    }
    named = {"step": seen.words["loss.step"], "value": words["value"], "reference": words["reference"]}
    return {
        "figure": curve_figure([look.step for look in found.looks], series, named, reference, form),
        "title": words["title"],
        "note": words["note"],
        "columns": [seen.words["loss.pairs"], named["step"], words["value"]],
        "python": _python(seen, f"[look.held_out_{field} for look in found.looks]"),
    }


def loss(seen: Seen) -> Payload:
    """The loss step by step; ln 2 is what equal rewards have."""
    return _curve(seen, "loss", ".4g", math.log(2))


def accuracies(seen: Seen) -> Payload:
    """The share of pairs in which the chosen text has the higher reward."""
    return _curve(seen, "accuracy", ".1%", 0.5)


def calibrated(seen: Seen) -> Payload:
    """Predicted probability against the share that agrees, with counts."""
    words, found = seen.here, seen.result.calibrated
    named = {key: words[key] for key in ("predicted", "agreed", "perfect", "count", "pairs")}
    return {
        "figure": calibration_figure(found.predicted, found.agreed, found.counts, named),
        "title": words["title"],
        "note": words["note"].format(n=whole(int(found.counts.sum()))),
        "columns": [words["pairs"], words["predicted"], words["agreed"]],
        "python": _python(seen, "calibration(found.margins)"),
    }


def facts(seen: Seen) -> Payload:
    """How it did, in words."""
    words, found = seen.here, seen.result
    last = found.looks[-1]
    share, n = accuracy(found.margins), len(found.margins)
    values = {"share": percent(share), "n": whole(n)}
    values |= dict(zip(("low", "high"), map(percent, interval(share, n)), strict=True))
    items = [
        [words["accuracy"], words["accuracy_text"].format(**values)],
        [words["pairs"], words[f"pairs_{found.by}"].format(n=whole(found.pairs), held=whole(found.held_out))],
        [words["loss"], words["loss_text"].format(train=nats(last.loss), held=nats(last.held_out_loss))],
        [words["kept"], words["kept_text"].format(name=found.name)],
    ]
    if found.ties:
        items.insert(2, [words["ties"], words["ties_text"].format(n=whole(found.ties))])
    if found.dropped:
        items.append([words["dropped"], words["dropped_text"].format(n=whole(found.dropped))])
    return {"title": words["title"], "items": items}


def along(seen: Seen) -> Payload:
    """The prompt coloured by the reward that it would have if it ended there."""
    words, found = seen.here, seen.results["prompt"]
    reach = max(2 * found.deviation, 1e-6)
    values = found.along.astype(float)
    return {
        "title": words["title"],
        "note": words["note"].format(reward=signed(float(values[-1]))),
        "words": {"token": words["token"], "told": words["told"], "label": words["label"]},
        "tokens": list(found.pieces),
        "values": [signed(value) for value in values],
        "places": [float(np.clip(0.5 + value / (2 * reach), 0, 1)) for value in values],
        "ramps": {name: list(stops) for name, stops in SIGNED_RAMPS.items()},
        "ticks": [[0, signed(-reach)], [0.5, "0"], [1, signed(reach)]],
        "columns": [words["position"], words["piece"], words["label"]],
        "python": _python(seen, f"found.reward.along(lm.encode({_prompt(seen)!r}).ids)"),
    }


def _prompt(seen: Seen) -> str:
    return b"".join(seen.facts.tokens.raw).decode("utf-8", "replace")


def changes(seen: Seen) -> Payload:
    """What each word of the prompt adds to its reward, and what another word in its place would."""
    words, found = seen.here, seen.results["prompt"].changed
    if found is None:
        return {"empty": {"text": words["no_words"], "hint": words["no_words_hint"]}}
    word = seen.settings.word.strip()
    named = {key: words[key] for key in ("change", "without")}
    named["instead"] = words["instead"].format(word=word)
    return {
        "figure": words_figure(found.words, found.without - found.reward, found.instead - found.reward, named),
        "title": words["title"].format(reward=signed(found.reward)),
        "note": words["note"],
        "columns": [words["what"], words["change"], words["word"]],
        "python": _python(
            seen, f"change_words(found.reward, lambda text: lm.encode(text).ids, {_prompt(seen)!r}, {word!r})"
        ),
    }


def texts(seen: Seen) -> Payload:
    """The held-out texts with the highest and the lowest reward."""
    words, found = seen.here, seen.result
    rows = [
        [signed(each.reward), words["chosen"] if each.chosen else words["rejected"], each.prompt, visible(each.text)]
        for each in (*found.best, *reversed(found.worst))
    ]
    return {
        "title": words["title"].format(n=len(found.best)),
        "about": words["about"],
        "columns": [words[key] for key in ("reward", "pair", "prompt", "text")],
        "rows": rows,
        "same": False,
    }


ON_PROMPT = ("trained", "prompt")
VIEW = View(
    "reward_model",
    settings=(*TRAINING, WORD),
    measures=(
        Measure(
            "trained",
            measure_reward,
            depends=("model",),
            settings=(*(each.name for each in TRAINING), "pairs"),
            slow=True,
            question=question,
        ),
        Measure("prompt", measure_prompt, depends=("plain",), settings=("word",), uses=("trained",)),
    ),
    layout=("pairs", "form", "start", "facts", ("loss", "accuracies"), "along", ("changes", "calibrated"), "texts"),
    parts={
        "pairs": Asking("pairsused", read_used, used, settings=("source",)),
        "start": Job("trained", start, settings=(*(each.name for each in TRAINING), "pairs")),
        "facts": Custom("normfacts", facts, of="trained", settings=()),
        "loss": Figure(loss, of="trained", settings=()),
        "accuracies": Figure(accuracies, of="trained", settings=()),
        "along": Custom("rewardtext", along, of=ON_PROMPT, settings=()),
        "changes": Figure(changes, of=ON_PROMPT, settings=("word",)),
        "calibrated": Figure(calibrated, of="trained", settings=()),
        "texts": Table(texts, of="trained", settings=()),
    },
)
