"""FLOPs of a prompt and of one more token, by formula, and the loaded model's measured time by component."""

import math
from dataclasses import dataclass

import numpy as np

from model.anatomy import component_times
from model.anatomy.component_times import Clocked
from model.anatomy.flops import (
    Operation,
    PassSize,
    by_group,
    cache_moved,
    countable,
    counted,
    crossing,
    intensity,
    next_token,
    operations,
    prompt,
    rules,
    training,
    weights_read,
)
from model.anatomy.mixers.kinds import attention_layers
from model.anatomy.two_ways import Pair, two_ways
from model.gpt.config import ModelConfig
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings
from viz.views.anatomy.subject import Subject, subject_of

MOST = 1 << 20  # maximum context length, in tokens
POINTS = 97  # number of points of a curve
COUNTED_LAYERS = 200  # maximum number of layers for which PyTorch counts the FLOPs
ITEMS = {"float32": 4, "bfloat16": 2, "int8": 1}  # bytes per number


def prompt_length(scene: Scene) -> int:
    """Return the length of the prompt in tokens, or 1 if the scene has no trace."""
    return len(scene.tokens) if scene.trace else 1


TOKENS = Range("tokens", 1, MOST, default=prompt_length, kind="number", blank=True)
SHOWN = Choice("shown", ("whole", "step", "lines"))
LOGITS = Choice("logits", ("every", "last"))  # prompt tokens that the output head runs for
ITEM = Choice("item", tuple(ITEMS))


@dataclass(frozen=True)
class PassWork:
    """The FLOPs and memory traffic of a prompt and of one more token, unless the model reads in both directions.

    `readings`, `operations`, `moved` and `intensity` have the keys "prompt" and "step".
    """

    subject: Subject
    tokens: int
    item: int  # bytes per number
    readings: dict[str, PassSize]
    operations: dict[str, tuple[Operation, ...]]  # in the order of the computation
    moved: dict[str, int]  # bytes of weights and cache that are moved
    intensity: dict[str, float]  # FLOPs per byte
    rules: dict[str, int]  # from model.anatomy.flops.rules
    kaplan: int  # FLOPs per token by Kaplan et al. 2020: 2 N + 2 L T H E, with L layers of attention
    training: float  # FLOPs per token of a training step
    crossings: dict[str, float]  # context lengths: "projections", "layer", and "useful" for the causal half; inf: none


def readings(config: ModelConfig, settings: Settings) -> dict[str, PassSize]:
    """Return the sizes of the forward passes in the tables: the prompt and, if there is a next token, one more."""
    T = settings.tokens
    sizes = {"prompt": prompt(T, None if settings.logits == "every" else 1), "step": next_token(T)}
    return {"prompt": sizes["prompt"]} if config.two_way else sizes


def measure_work(scene: Scene, settings: Settings) -> PassWork:
    """Compute the FLOPs and memory traffic of the forward passes from the config alone."""
    subject, T, item = subject_of(scene, settings), settings.tokens, ITEMS[settings.item]
    c = subject.config
    passes = readings(c, settings)
    rules_of_thumb = rules(c)
    return PassWork(
        subject,
        T,
        item,
        passes,
        {name: operations(c, each) for name, each in passes.items()},
        {name: item * (weights_read(c, each) + cache_moved(c, each)) for name, each in passes.items()},
        {name: intensity(c, each, item) for name, each in passes.items()},
        rules_of_thumb,
        rules_of_thumb["forward"] + 2 * T * c.n_head * sum(c.at(layer).d_head for layer in attention_layers(c)),
        training(c, passes["prompt"]) / T,
        {"projections": crossing(c), "layer": crossing(c, "layer"), "useful": crossing(c, useful=True)},
    )


def measure_counted(scene: Scene, settings: Settings) -> dict[str, int] | None:
    """Count the FLOPs of both forward passes with PyTorch's counter; None for a model with too many layers, with
    experts, or with too many steps of its states.
    """
    config = subject_of(scene, settings).config
    passes = readings(config, settings)
    if config.n_layer > COUNTED_LAYERS or config.n_expert > 1 or not countable(config, passes["prompt"]):
        return None
    return {name: sum(counted(config, each).values()) for name, each in passes.items()}


# --- the curve ---


@dataclass(frozen=True)
class FlopsCurve:
    """FLOPs by group of operations as a function of context length."""

    subject: Subject
    shown: str  # an option of `SHOWN`
    every: bool  # whether the output head runs for every token of the prompt
    x: list[int]  # context lengths in tokens
    groups: dict[str, list[int]]  # by key of model.anatomy.flops.GROUPS, one value per context length
    crossings: dict[str, float]  # context lengths where attention overtakes "projections" or the rest of the "layer"
    meeting: int | None  # FLOPs of attention where it overtakes the projections; None if it never does


def measure_curve(scene: Scene, settings: Settings) -> FlopsCurve:
    """Compute the FLOPs at context lengths from one token to beyond every crossing.

    On logarithmic axes, the curve also reaches the model's own context length.
    """
    subject, shown, every = subject_of(scene, settings), settings.shown, settings.logits == "every"
    config = subject.config
    found = {against: crossing(config, against) for against in ("projections", "layer")}
    crossings = {against: at for against, at in found.items() if math.isfinite(at)}
    longest = max(settings.tokens, round(1.5 * crossings.get("layer", config.n_ctx)))
    longest = min(max(longest, config.n_ctx) if shown == "lines" else longest, 4 * MOST)

    def groups(T: int) -> dict[str, int]:
        step = shown == "step" and not config.two_way
        return by_group(operations(config, PassSize(1, T) if step else prompt(T, None if every else 1)))

    x = contexts(longest, shown == "lines")
    groups_at = [groups(T) for T in x]
    curves = {key: [each[key] for each in groups_at] for key in groups_at[0]}
    meeting = groups(max(1, round(crossings["projections"])))["attention"] if crossings else None
    return FlopsCurve(subject, shown, every, x, curves, crossings, meeting)


def contexts(longest: int, logarithmic: bool) -> list[int]:
    """List integer context lengths from 1 to `longest`, evenly spaced on the axis."""
    spaced = np.geomspace(1, longest, POINTS) if logarithmic else np.linspace(1, longest, POINTS)
    return np.unique(spaced.round().astype(int)).tolist()


# --- time ---


def cost_of_times(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Return the number of forward passes in the measurement, and the number of tokens that they process.

    Every round runs the prompt and one more token, each with and without the clock.
    """
    runs = 2 * component_times.ROUNDS
    return 2 * runs, runs * (len(scene.tokens) + 1)


def measure_ways(scene: Scene, settings: Settings) -> tuple[Pair, ...]:
    """Time LayerNorm against RMSNorm, and three products against one, for one token of the loaded model."""
    return two_ways(scene.model.config)


def measure_times(scene: Scene, settings: Settings, progress: Progress) -> Clocked:
    """Measure the seconds that each component of the loaded model takes, without edits."""
    ids = scene.tokens.ids.tolist()
    return component_times.measure(scene.model.model, ids, settings.logits == "every", progress)
