"""Operations of a prompt and of one token after it, by formula; and where the loaded model spends its time."""

from dataclasses import dataclass

import numpy as np

from model.anatomy import component_times
from model.anatomy.component_times import Clocked
from model.anatomy.flops import (
    Operation,
    Reading,
    by_group,
    cache_moved,
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
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings
from viz.views.anatomy.subject import Subject, subject_of

MOST = 1 << 20  # tokens of a context
POINTS = 97  # of a curve
COUNTED_LAYERS = 200  # PyTorch counts a forward of at most so many layers
ITEMS = {"float32": 4, "bfloat16": 2, "int8": 1}  # bytes of a number


def prompt_length(scene: Scene) -> int:
    """Return the tokens of the prompt, 1 for a model without one."""
    return len(scene.tokens) if scene.trace else 1


TOKENS = Range("tokens", 1, MOST, default=prompt_length, kind="number", blank=True)
SHOWN = Choice("shown", ("whole", "step", "lines"))
LOGITS = Choice("logits", ("every", "last"))  # tokens of the prompt that the head runs for
ITEM = Choice("item", tuple(ITEMS))


@dataclass(frozen=True)
class Work:
    """The work of a prompt and of one token after it. Dictionaries with `prompt` and `step` have one entry for each."""

    subject: Subject
    tokens: int
    item: int  # bytes of a number
    readings: dict[str, Reading]
    operations: dict[str, tuple[Operation, ...]]  # in the order of the computation
    moved: dict[str, int]  # bytes of weights and cache
    intensity: dict[str, float]  # FLOPs a byte
    rules: dict[str, int]  # of model.anatomy.flops.rules
    kaplan: int  # FLOPs a token by Kaplan et al. 2020: 2 N + 2 L T H E
    training: float  # FLOPs a token of a training step
    crossings: dict[str, float]  # contexts: "projections", "layer", and "useful" for the causal half


def readings(settings: Settings) -> dict[str, Reading]:
    """Return the two forwards that the tables are of."""
    T = settings.tokens
    return {"prompt": prompt(T, None if settings.logits == "every" else 1), "step": next_token(T)}


def measure_work(scene: Scene, settings: Settings) -> Work:
    """Return all of it from the config alone."""
    subject, T, item = subject_of(scene, settings), settings.tokens, ITEMS[settings.item]
    c, both = subject.config, readings(settings)
    thumb = rules(c)
    return Work(
        subject,
        T,
        item,
        both,
        {name: operations(c, each) for name, each in both.items()},
        {name: item * (weights_read(c, each) + cache_moved(c, each)) for name, each in both.items()},
        {name: intensity(c, each, item) for name, each in both.items()},
        thumb,
        thumb["forward"] + 2 * c.n_layer * T * c.n_head * c.d_head,
        training(c, both["prompt"]) / T,
        {"projections": crossing(c), "layer": crossing(c, "layer"), "useful": crossing(c, useful=True)},
    )


def measure_counted(scene: Scene, settings: Settings) -> dict[str, int] | None:
    """The counts of PyTorch's counter in the same two forwards; None for a model of too many layers."""
    config = subject_of(scene, settings).config
    if config.n_layer > COUNTED_LAYERS:
        return None
    return {name: sum(counted(config, each).values()) for name, each in readings(settings).items()}


# --- the curve ---


@dataclass(frozen=True)
class Curve:
    """FLOPs by group of operations over the context."""

    subject: Subject
    shown: str  # of SHOWN
    every: bool  # the head runs for every token of the prompt
    x: list[int]  # contexts in tokens
    groups: dict[str, list[int]]  # of model.anatomy.flops.GROUPS, a number for each context
    crossings: dict[str, float]  # contexts at which attention overtakes "projections", and the rest of the "layer"
    meeting: int  # FLOPs of attention where it overtakes the projections


def measure_curve(scene: Scene, settings: Settings) -> Curve:
    """From one token on past every crossing; on logarithmic axes to the model's own context, too."""
    subject, shown, every = subject_of(scene, settings), settings.shown, settings.logits == "every"
    config = subject.config
    crossings = {against: crossing(config, against) for against in ("projections", "layer")}
    longest = max(settings.tokens, round(1.5 * crossings["layer"]))
    longest = min(max(longest, config.n_ctx) if shown == "lines" else longest, 4 * MOST)

    def groups(T: int) -> dict[str, int]:
        return by_group(operations(config, Reading(1, T) if shown == "step" else prompt(T, None if every else 1)))

    x = contexts(longest, shown == "lines")
    each = [groups(T) for T in x]
    meeting = groups(max(1, round(crossings["projections"])))["attention"]
    return Curve(subject, shown, every, x, {key: [one[key] for one in each] for key in each[0]}, crossings, meeting)


def contexts(longest: int, logarithmic: bool) -> list[int]:
    """Whole numbers of tokens from 1 to the longest, evenly spaced on the axis."""
    spaced = np.geomspace(1, longest, POINTS) if logarithmic else np.linspace(1, longest, POINTS)
    return np.unique(spaced.round().astype(int)).tolist()


# --- time ---


def cost_of_times(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Return the runs on the prompt and on one more token, each as often as they are repeated, with the clock and
    without.
    """
    runs = 2 * component_times.ROUNDS
    return 2 * runs, runs * (len(scene.tokens) + 1)


def measure_times(scene: Scene, settings: Settings, progress: Progress) -> Clocked:
    """Return the seconds by component on the loaded model, without edits."""
    ids = scene.tokens.ids.tolist()
    return component_times.measure(scene.model.model, ids, settings.logits == "every", progress)
